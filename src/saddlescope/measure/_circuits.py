"""The QK and OV circuits of attention heads, as factored matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from saddlescope.checks import number, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Array, Numbers, namespace, on_device_of, real_arrays
from saddlescope.measure._factored import FactoredMatrix

__all__ = ["Circuits", "FactoredMatrix", "circuits"]


@dataclass(frozen=True, eq=False, repr=False)
class Circuits:
    """What each head attends by and what it moves.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> W_Q, W_K, W_V = generator.normal(size=(3, 2, 4, 8))
    >>> heads = ss.measure.circuits(W_Q, W_K, W_V, generator.normal(size=(2, 8, 4)))
    >>> heads.qk.shape
    (2, 8, 8)
    """

    qk: FactoredMatrix
    r"""$W_Q^\top W_K$ [..., head, d_model, d_model]: the score of a query token x and a key token
    y is $x^\top QK\,y$, before any division by $\sqrt{d_{head}}$. With biases it acts on (x; 1) and
    (y; 1) and has d_model + 1 rows and columns. With rotary positions it is the score at distance
    0 only."""
    ov: FactoredMatrix
    """$W_O W_V$ [..., head, d_model, d_model]: what the head writes for a token it attends to."""
    head_bias: Array | None = None
    r"""$W_O b_V$ [..., head, d_model], None without value biases: what each head writes whatever
    it attends to, times the sum of its attention weights (1 under softmax)."""
    output_bias: Array | None = None
    r"""$\sum_{head} W_O b_V + b_O$ [..., d_model], None without either: what the layer writes
    whatever it reads, where attention weights sum to 1."""
    position_dependent: bool = False
    """True with rotary positions: the QK circuit depends on the distance of the two tokens."""

    def __repr__(self) -> str:
        *leading, heads, _, _ = self.ov.shape
        parts = [f"heads={heads}", f"qk={self.qk.shape[-2:]}", f"ov={self.ov.shape[-2:]}"]
        parts += [f"leading={tuple(leading)}"] if leading else []
        parts += [f"inner={self.ov.left.shape[-1]}"]
        parts += ["position_dependent=True: qk at distance 0"] if self.position_dependent else []
        return f"Circuits({', '.join(parts)})"

    def qk_at(
        self, offset: object, *, base: object = 10_000.0, rotary_dimensions: object = None
    ) -> FactoredMatrix:
        r"""The QK circuit of a query that stands `offset` tokens after its key.

        Without rotary positions it is `qk` at any distance. With them, queries and keys are turned
        by their position p: entries a and a + r/2 of the first r entries of the head form a plane,
        turned by $p\,b^{-2a/r}$ (the split-halves convention of GPT-NeoX and Llama; weights of the
        interleaved convention must be permuted first). Then $QK = (R_{offset} W_Q)^\top W_K$.
        `base` is b and `rotary_dimensions` is r, by default the whole head.

        >>> eye = np.eye(2)[None]
        >>> layer = circuits(eye, eye, eye, eye, rotary=True)
        >>> layer.qk_at(1).product()[0].round(3).tolist()  # a rotation by 1 radian
        [[0.54, 0.841], [-0.841, 0.54]]
        """
        if not self.position_dependent:
            return self.qk
        head = int(self.qk.left.shape[-1])
        turning = head if rotary_dimensions is None else rotary_dimensions
        size = whole_number("rotary_dimensions", turning)
        if size % 2 or size > head:
            allowed = f"must be even and at most {head}, the size of a head"
            raise InvalidInput("rotary_dimensions", size, allowed)
        half = size // 2
        speeds = number("base", base, above=0.0) ** (-np.arange(half) / half)
        angles = number("offset", offset) * speeds
        queries = self.qk.left
        narrow = np.float32 if queries.dtype.itemsize == 4 else np.float64
        cosine = on_device_of(queries, np.cos(angles).astype(narrow))
        sine = on_device_of(queries, np.sin(angles).astype(narrow))
        first, second, rest = queries[..., :half], queries[..., half:size], queries[..., size:]
        turned = [first * cosine - second * sine, second * cosine + first * sine, rest]
        return FactoredMatrix(namespace(queries).concatenate(turned, -1), self.qk.right)


def circuits(
    W_Q: Numbers,
    W_K: Numbers,
    W_V: Numbers,
    W_O: Numbers,
    *,
    b_Q: Numbers | None = None,
    b_K: Numbers | None = None,
    b_V: Numbers | None = None,
    b_O: Numbers | None = None,
    gain: Numbers | None = None,
    norm_bias: Numbers | None = None,
    rotary: bool = False,
) -> Circuits:
    r"""The circuits $QK = W_Q^\top W_K$ and $OV = W_O W_V$ of each head (THEORY section 7).

    `W_Q[..., head, d_head, d_model]`, `W_K` and `W_V` alike, and `W_O[..., head, d_model, d_head]`
    act on column vectors. Leading axes (layers, checkpoints) agree. With grouped queries `W_K` and
    `W_V` have fewer heads, whose number g divides the number H of query heads: head h then uses
    the keys and values of h // (H/g).

    Biases are `b_Q[..., head, d_head]`, `b_K` and `b_V` alike (each with the heads of its weight),
    and `b_O[..., d_model]`. Query and key biases make QK act on (x; 1): the bias is appended to its
    factor as a last column (zeros where only one is given), and scores remain exact. Under softmax
    the last column of QK adds the same to all keys and has no effect. Value biases do not enter OV,
    since attention weights that sum to 1 pass them on whatever is attended to: they are in
    `head_bias` and `output_bias`.

    `gain[..., d_model]` and `norm_bias[..., d_model]` of the normalisation in front of the layer
    are folded in: the circuits then act on what is normalised, before its gain, and the norm's bias
    becomes part of the biases of queries, keys and values. Without them the circuits act on what
    the normalisation gives.

    `rotary` says that queries and keys are rotated by position: `qk` then holds at distance 0 only,
    and `Circuits.qk_at` gives it at others.

    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 12, 64, 768))
    >>> circuits(query, key, value, rng.normal(size=(12, 768, 64)))
    Circuits(heads=12, qk=(768, 768), ov=(768, 768), inner=64)
    """
    weights = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}
    named = {"b_Q": b_Q, "b_K": b_K, "b_V": b_V, "b_O": b_O, "gain": gain, "norm_bias": norm_bias}
    given = {name: vector for name, vector in named.items() if vector is not None}
    query, key, value, output, *rest = real_arrays(**weights, **given)
    for name, weight in zip(weights, (query, key, value, output), strict=True):
        if weight.ndim < 3:
            raise InvalidInput(f"{name}.shape", tuple(weight.shape), "must have 3 axes or more")
    _check_weights(query, key, value, output)
    vectors = dict.fromkeys(named) | dict(zip(given, rest, strict=True))
    _check_vectors(vectors, query, key, value, output)
    query_bias, key_bias, value_bias, output_bias, gains, offset = vectors.values()
    query, query_bias = _folded(query, query_bias, gains, offset)
    key, key_bias = _folded(key, key_bias, gains, offset)
    value, value_bias = _folded(value, value_bias, gains, offset)
    if query_bias is not None or key_bias is not None:
        query, key = _with_column(query, query_bias), _with_column(key, key_bias)
    groups = query.shape[-3] // key.shape[-3]
    head_bias = None
    if value_bias is not None:
        head_bias = (output @ _for_each_query(value_bias[..., None], groups))[..., 0]
        written = namespace(head_bias).sum(head_bias, axis=-2)
        output_bias = written if output_bias is None else written + output_bias
    return Circuits(
        qk=FactoredMatrix(query.mT, _for_each_query(key, groups)),
        ov=FactoredMatrix(output, _for_each_query(value, groups)),
        head_bias=head_bias,
        output_bias=output_bias,
        position_dependent=bool(rotary),
    )


def _check_weights(query: Array, key: Array, value: Array, output: Array) -> None:
    heads, shared = query.shape[-3], key.shape[-3]
    if query.shape[-2] > query.shape[-1]:
        allowed = "must be [..., head, d_head, d_model]: here the last two axes seem to be swapped"
        raise InvalidInput("W_Q.shape", tuple(query.shape), allowed)
    if heads % shared:
        allowed = f"must have a number of heads that divides the {heads} of W_Q"
        raise InvalidInput("W_K.shape", tuple(key.shape), allowed)
    leading = tuple(query.shape[:-3])
    wanted = {
        "W_K": (key, (*leading, shared, query.shape[-2], None)),
        "W_V": (value, (*leading, shared, None, None)),
        "W_O": (output, (*leading, heads, None, value.shape[-2])),
    }
    for name, (array, shape) in wanted.items():
        fits = len(array.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            shown = ", ".join("any" if size is None else str(size) for size in shape)
            raise InvalidInput(f"{name}.shape", tuple(array.shape), f"must be ({shown})")


def _check_vectors(
    vectors: Mapping[str, Array | None], query: Array, key: Array, value: Array, output: Array
) -> None:
    wanted = {
        "b_Q": tuple(query.shape[:-1]),
        "b_K": tuple(key.shape[:-1]),
        "b_V": tuple(value.shape[:-1]),
        "b_O": (*output.shape[:-3], output.shape[-2]),
    }
    wanted |= dict.fromkeys(("gain", "norm_bias"), (*query.shape[:-3], query.shape[-1]))
    for name, shape in wanted.items():
        vector = vectors[name]
        if vector is not None and tuple(vector.shape) != shape:
            raise InvalidInput(f"{name}.shape", tuple(vector.shape), f"must be {shape}")


def _folded(
    weight: Array, bias: Array | None, gain: Array | None, offset: Array | None
) -> tuple[Array, Array | None]:
    """A weight and its bias with the gain and the bias of the normalisation in front of them."""
    if offset is not None:
        shift = (weight @ offset[..., None, :, None])[..., 0]
        bias = shift if bias is None else bias + shift
    return (weight if gain is None else weight * gain[..., None, None, :]), bias


def _with_column(weight: Array, bias: Array | None) -> Array:
    column = 0 * weight[..., :1] if bias is None else bias[..., None]
    return namespace(weight).concatenate([weight, column], -1)


def _for_each_query(shared: Array, groups: int) -> Array:
    """Repeat every key or value head [..., g, a, b] for the query heads that use it."""
    if groups == 1:
        return shared
    xp, (*leading, heads, rows, columns) = namespace(shared), shared.shape
    spread = xp.broadcast_to(shared[..., None, :, :], (*leading, heads, groups, rows, columns))
    return spread.reshape(*leading, heads * groups, rows, columns)
