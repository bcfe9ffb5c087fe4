"""A small decoder: attention-only or with MLPs, its weights stacked over layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from saddlescope.checks import AnyArray, validated, whole_number, word_of
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

Weights = dict[str, Float[Array, "..."]]
"""Weights by name, on the device."""
Arrays = dict[str, AnyArray]
"""Arrays by name, in NumPy."""

# The usual base of rotary angles (Su et al. 2021), and the usual guard of LayerNorm.
_ROTARY_BASE = 10_000.0
_NORM_GUARD = 1e-5


class Positions(StrEnum):
    """How a decoder encodes the position of a token.

    >>> [positions.value for positions in Positions]
    ['learned', 'rotary']
    """

    learned = "learned"
    rotary = "rotary"


class Activation(StrEnum):
    """The activation function of the MLPs.

    >>> [activation.value for activation in Activation]
    ['relu', 'gelu']
    """

    relu = "relu"
    gelu = "gelu"


@kind("value", "decoder_shape")
@validated
@dataclass(frozen=True)
class DecoderShape:
    """All that determines the shapes of a decoder's weights and what it computes from them.

    - `d_head`: d_model / heads by default.
    - `d_mlp`: 0 for attention only, without MLPs.
    - `positions`: `"learned"` vectors added to the embedding, or `"rotary"` angles in every head.
    - `layer_norm`: normalise the input of each attention, each MLP and the unembedding.
    - `tied`: unembed with the embedding matrix; otherwise W_U is a separate weight.
    - `outputs`: how many tokens can be predicted; `vocabulary` by default.

    `activation` is that of the MLPs.

    >>> DecoderShape(vocabulary=64, context=128, layers=2, heads=4, d_model=64).d_head
    16
    """

    vocabulary: int
    context: int
    layers: int = 2
    heads: int = 4
    d_model: int = 128
    d_head: int = None  # type: ignore[assignment]
    d_mlp: int = 0
    positions: Positions = Positions.learned
    layer_norm: bool = False
    activation: Activation = Activation.relu
    tied: bool = False
    outputs: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        settled = vars(self)
        for name in ("vocabulary", "context", "layers", "heads", "d_model"):
            settled[name] = whole_number(name, settled[name])
        if settled["d_head"] is None and self.d_model % self.heads:
            allowed = f"must be a multiple of heads = {self.heads}"
            raise InvalidInput("d_model", self.d_model, allowed)
        for name, default in (
            ("d_head", self.d_model // self.heads),
            ("outputs", self.vocabulary),
        ):
            given = settled[name]
            settled[name] = whole_number(name, default if given is None else given)
        settled["d_mlp"] = whole_number("d_mlp", self.d_mlp, at_least=0)
        settled["positions"] = word_of("positions", self.positions, Positions)
        settled["activation"] = word_of("activation", self.activation, Activation)
        for name in ("layer_norm", "tied"):
            if not isinstance(settled[name], bool):
                raise InvalidInput(name, settled[name], "must be True or False")
        if self.positions is Positions.rotary and self.d_head % 2:
            raise InvalidInput("d_head", self.d_head, "must be even with rotary positions")
        if self.tied and self.outputs != self.vocabulary:
            allowed = f"must be vocabulary = {self.vocabulary} with a tied unembedding"
            raise InvalidInput("outputs", self.outputs, allowed)

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight, by name."""
        layers, heads, wide = self.layers, self.heads, self.d_model
        inward, outward = (layers, heads, self.d_head, wide), (layers, heads, wide, self.d_head)
        shapes: dict[str, tuple[int, ...]] = {"W_E": (self.vocabulary, wide)}
        if self.positions is Positions.learned:
            shapes["W_P"] = (self.context, wide)
        shapes |= {"W_Q": inward, "W_K": inward, "W_V": inward, "W_O": outward}
        if self.d_mlp:
            shapes |= {"W_in": (layers, self.d_mlp, wide), "b_in": (layers, self.d_mlp)}
            shapes |= {"W_out": (layers, wide, self.d_mlp), "b_out": (layers, wide)}
        if self.layer_norm:
            shapes |= {"attention_gain": (layers, wide), "final_gain": (wide,)}
            if self.d_mlp:
                shapes["mlp_gain"] = (layers, wide)
        if not self.tied:
            shapes["W_U"] = (self.outputs, wide)
        return shapes


class Decoder(eqx.Module):
    """A decoder's weights by name, and what it computes.

    W_Q, W_K, W_V are [layer, head, d_head, d_model], W_O is [layer, head, d_model, d_head]; W_E and
    W_U are [token, d_model], W_P is [position, d_model]. Attention has no biases. LayerNorm has a
    gain and no bias.

    >>> shape = DecoderShape(vocabulary=5, context=8, layers=2, heads=2, d_model=4)
    >>> decoder = Decoder.start(shape, jax.random.key(0))
    >>> decoder.logits(jnp.zeros((3, 8), int)).shape
    (3, 8, 5)
    """

    weights: Weights
    shape: DecoderShape = eqx.field(static=True)

    @staticmethod
    def start(shape: DecoderShape, key: PRNGKeyArray) -> Decoder:
        """Random weights: normal, of variance 1/d_model (1/outputs for W_U); no biases, gains 1."""
        weights: Weights = {}
        for index, (name, size) in enumerate(shape.weights.items()):
            if name.startswith("b_"):
                weights[name] = jnp.zeros(size)
            elif name.endswith("_gain"):
                weights[name] = jnp.ones(size)
            else:
                fan = shape.outputs if name == "W_U" else shape.d_model
                draw = jax.random.normal(jax.random.fold_in(key, index), size)
                weights[name] = draw / jnp.sqrt(jnp.asarray(fan, draw.dtype))
        return Decoder(weights, shape)

    @staticmethod
    def of(shape: DecoderShape, weights: Mapping[str, AnyArray | Array]) -> Decoder:
        """A decoder with given weights."""
        missing, extra = set(shape.weights) - set(weights), set(weights) - set(shape.weights)
        if missing or extra:
            raise InvalidInput("weights", sorted(weights), f"must be {sorted(shape.weights)}")
        for name, size in shape.weights.items():
            if tuple(weights[name].shape) != size:
                raise InvalidInput(f"{name}.shape", tuple(weights[name].shape), f"must be {size}")
        return Decoder({name: jnp.asarray(weights[name]) for name in shape.weights}, shape)

    def logits(self, tokens: Int[Array, "... T"], start: int = 0) -> Float[Array, "... R V"]:
        """Scores of the next token at the positions from `start`, each from the tokens up to it."""
        return self._compute(tokens, start)[0]

    def patterns(self, tokens: Int[Array, "... T"]) -> Float[Array, "... layer head T T"]:
        """How much each query position (last axis but one) attends to each key (last axis)."""
        return jnp.stack(self._compute(tokens)[1], axis=-4)

    def token_losses(self, tokens: Int[Array, "... T"], start: int = 1) -> Float[Array, "... R"]:
        """The cross-entropy of the tokens from `start` (at least 1), in nats, given those before.

        The last token is only predicted: sequences may have one more token than the context.
        """
        return cross_entropy(self.logits(tokens[..., :-1], start - 1), tokens[..., start:])

    def _compute(
        self, tokens: Int[Array, "... T"], start: int = 0
    ) -> tuple[Float[Array, "... R V"], list[Float[Array, "... head T T"]]]:
        shape, weights = self.shape, self.weights
        length = tokens.shape[-1]
        if length > shape.context:
            raise InvalidInput("tokens.shape", tokens.shape, f"at most {shape.context} positions")
        stream = weights["W_E"][tokens]
        if shape.positions is Positions.learned:
            positions = weights["W_P"][:length]
            stream = stream + jnp.broadcast_to(positions, stream.shape)
        patterns = []
        # A Python loop: at a few layers it compiles as fast as a scan and runs faster.
        for layer in range(shape.layers):
            read = self._normalise(stream, "attention_gain", layer)
            change, pattern = self._attend(read, layer)
            stream = stream + change
            patterns.append(pattern)
            if layer == shape.layers - 1:
                stream = stream[..., start:, :]
            if shape.d_mlp:
                stream = stream + self._process(self._normalise(stream, "mlp_gain", layer), layer)
        stream = self._normalise(stream, "final_gain", None)
        unembedding = weights["W_E" if shape.tied else "W_U"]
        return jnp.einsum("...td,vd->...tv", stream, unembedding), patterns

    def _attend(
        self, stream: Float[Array, "... T D"], layer: int
    ) -> tuple[Float[Array, "... T D"], Float[Array, "... head T T"]]:
        """What the heads of a layer add to the stream, and their patterns."""
        weights = self.weights
        query, key, value = (
            jnp.einsum("...td,hkd->...htk", stream, weights[name][layer])
            for name in ("W_Q", "W_K", "W_V")
        )
        if self.shape.positions is Positions.rotary:
            query, key = rotate(query), rotate(key)
        scale = self.shape.d_head**-0.5
        scores = jnp.einsum("...qk,...sk->...qs", query * scale, key)
        length = scores.shape[-1]
        causal = jnp.broadcast_to(jnp.tril(jnp.ones((length, length), bool)), scores.shape)
        pattern = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
        mixed = jnp.einsum("...qs,...sk->...qk", pattern, value)
        return jnp.einsum("...htk,hdk->...td", mixed, weights["W_O"][layer]), pattern

    def _process(self, stream: Float[Array, "... T D"], layer: int) -> Float[Array, "... T D"]:
        """What the MLP of a layer adds to the stream."""
        weights = self.weights
        hidden = jnp.einsum("...td,md->...tm", stream, weights["W_in"][layer])
        hidden = hidden + jnp.broadcast_to(weights["b_in"][layer], hidden.shape)
        is_relu = self.shape.activation is Activation.relu
        hidden = jax.nn.relu(hidden) if is_relu else jax.nn.gelu(hidden)
        change = jnp.einsum("...tm,dm->...td", hidden, weights["W_out"][layer])
        return change + jnp.broadcast_to(weights["b_out"][layer], change.shape)

    def _normalise(
        self, stream: Float[Array, "... T D"], name: str, layer: int | None
    ) -> Float[Array, "... T D"]:
        if not self.shape.layer_norm:
            return stream
        gain = self.weights[name] if layer is None else self.weights[name][layer]
        centred = stream - stream.mean(-1, keepdims=True)
        spread = jnp.sqrt((centred * centred).mean(-1, keepdims=True) + _NORM_GUARD)
        return centred / spread * jnp.broadcast_to(gain, stream.shape)


def cross_entropy(logits: Float[Array, "... V"], targets: Int[Array, "..."]) -> Float[Array, "..."]:
    """−ln of the probability that the logits give to the targets."""
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def rotate(vectors: Float[Array, "... T K"]) -> Float[Array, "... T K"]:
    """Turn the pair (i, i + K/2) at position t by the angle t / base^(2i/K) (Su et al. 2021)."""
    length, half = vectors.shape[-2], vectors.shape[-1] // 2
    speeds = _ROTARY_BASE ** (-jnp.arange(half, dtype=vectors.dtype) / half)
    angles = jnp.arange(length, dtype=vectors.dtype)[:, None] * speeds[None, :]
    angles = jnp.broadcast_to(angles, (*vectors.shape[:-1], half))
    first, second = vectors[..., :half], vectors[..., half:]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
