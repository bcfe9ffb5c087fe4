"""What is evaluated of a decoder at every recorded step."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from saddlescope.measure import in_context_score, prefix_matching
from saddlescope.transformer._decoder import Arrays, Decoder, cross_entropy
from saddlescope.transformer.sources.base import AbstractSource
from saddlescope.transformer.sources.modular import ModularArithmetic
from saddlescope.transformer.sources.repeated import RepeatedTokens

# Sequences on which patterns of attention are looked at, and how long they are at most: the
# patterns leave the device at every record.
_PROBES, _LONGEST_PROBE = 16, 128

Computed = dict[str, Shaped[Array, "..."]]
"""What is computed on the device, by name."""


class AbstractEvaluation(eqx.Module):
    """Quantities that are recorded: computed on the device, finished in NumPy.

    >>> from saddlescope.transformer import ArithmeticEvaluation, ModularArithmetic
    >>> source = ModularArithmetic(p=7)
    >>> ArithmeticEvaluation(source.train, source.test).axes()["test_accuracy"]
    ()
    """

    @abc.abstractmethod
    def compute(self, decoder: Decoder) -> Computed:
        """Compiled: whatever `finish` needs, for one decoder."""

    @abc.abstractmethod
    def finish(self, computed: Arrays) -> Arrays:
        """The quantities by name."""

    @abc.abstractmethod
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of every quantity."""


class LanguageEvaluation(AbstractEvaluation):
    """Losses on held-out sequences, and patterns of attention on repeated random tokens.

    - `loss`: the mean loss a token; `token_loss`: the same at every position.
    - `in_context_score`: loss late in the context minus loss early in it, see `windows`;
      `early_loss`: the latter.
    - `prefix_matching`: of each head.

    `sequences` are held out, `probes` repeated random tokens.

    >>> import jax
    >>> source = RepeatedTokens(8, context=16, shortest=2, longest=8)
    >>> evaluation = LanguageEvaluation.of(source, jax.random.key(0), size=4)
    >>> evaluation.sequences.shape, evaluation.axes()["prefix_matching"]
    ((4, 17), ('layer', 'head'))
    """

    sequences: Int[Array, "S T"]
    probes: Int[Array, "P R"]

    @staticmethod
    def of(source: AbstractSource, key: PRNGKeyArray, size: int) -> LanguageEvaluation:
        """Sequences held out by a source, and random tokens from its vocabulary, repeated."""
        length = min(source.context, _LONGEST_PROBE)
        repeated = RepeatedTokens(
            source.vocabulary, length, shortest=max(length // 8, 1), longest=length // 2
        )
        # One more token than is read comes with each sequence.
        probes = repeated.batch(key, _PROBES)[:, :-1]
        return LanguageEvaluation(source.held_out(key, size), probes)

    def compute(self, decoder: Decoder) -> Computed:
        """Token losses, mean over sequences, and the patterns [layer, probe, head, query, key]."""
        return {
            "token_loss": decoder.token_losses(self.sequences).mean(0),
            "patterns": jnp.moveaxis(decoder.patterns(self.probes), -4, 0),
        }

    def finish(self, computed: Arrays) -> Arrays:
        """The quantities by name."""
        losses, patterns = computed["token_loss"], computed["patterns"]
        heads = (patterns.shape[0], patterns.shape[2])
        sound = np.isfinite(losses).all() and np.isfinite(patterns).all()
        where = windows(len(losses))
        score = in_context_score(losses, **where) if sound else np.nan
        matching = prefix_matching(patterns, np.asarray(self.probes)) if sound else np.nan
        return {
            "loss": np.asarray(losses.mean()),
            "token_loss": losses,
            "early_loss": np.asarray(losses[where["early"]].mean()),
            "in_context_score": np.asarray(score),
            "prefix_matching": np.broadcast_to(matching, heads),
        }

    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of every quantity."""
        return {
            "loss": (),
            "token_loss": ("position",),
            "early_loss": (),
            "in_context_score": (),
            "prefix_matching": ("layer", "head"),
        }


def windows(length: int) -> dict[str, slice]:
    """The positions that count as early and late: the second sixteenth and the last quarter.

    Repeated tokens with periods of an eighth to a half of the context have not begun to repeat in
    the one and have all done so in the other. Olsson et al. take 50 and 500 of 512 tokens.

    >>> windows(128)
    {'early': slice(8, 16, None), 'late': slice(96, None, None)}
    """
    early = slice(length // 16, max(length // 8, length // 16 + 1))
    return {"early": early, "late": slice(min(3 * length // 4, length - 1), None)}


class ArithmeticEvaluation(AbstractEvaluation):
    r"""Loss and accuracy on the pairs that are trained on and on those that are not.

    `embedding_power` is the share of each frequency $k = 1 … (p - 1)/2$ in the power of the
    numbers' embeddings, $\|\sum_a W_E[a] e^{-2\pi i ak/p}\|^2$, their mean left out.

    >>> from saddlescope.transformer import ModularArithmetic
    >>> source = ModularArithmetic(p=7)
    >>> ArithmeticEvaluation(source.train, source.test).axes()["embedding_power"]
    ('frequency',)
    """

    train: Int[Array, "train 4"]
    test: Int[Array, "test 4"]

    @staticmethod
    def of(source: ModularArithmetic) -> ArithmeticEvaluation:
        """The pairs of a source."""
        return ArithmeticEvaluation(source.train, source.test)

    def compute(self, decoder: Decoder) -> Computed:
        """The quantities by name."""
        answers: Computed = {}
        for name, pairs in (("train", self.train), ("test", self.test)):
            logits, results = decoder.logits(pairs[:, :-1], start=2)[:, 0], pairs[:, -1]
            answers[f"{name}_loss"] = cross_entropy(logits, results).mean()
            right = logits.argmax(-1).astype(results.dtype) == results
            answers[f"{name}_accuracy"] = right.mean()
        embedding = decoder.weights["W_E"][: decoder.shape.outputs]
        waves = jnp.fft.rfft(embedding, axis=0)[1:]
        power = (waves.real**2 + waves.imag**2).sum(1)
        return {**answers, "embedding_power": power / power.sum()}

    def finish(self, computed: Arrays) -> Arrays:
        """The quantities by name."""
        return computed

    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of every quantity."""
        names = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
        return {**dict.fromkeys(names, ()), "embedding_power": ("frequency",)}
