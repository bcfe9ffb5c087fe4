"""What every model of attention offers to the dynamics, the theory and the user."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from saddlescope.checks import FloatArray, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput

Array: TypeAlias = Any
"""A NumPy or a JAX array: the formulas of this folder use what both offer."""

Weights: TypeAlias = dict[str, Array]
"""Named weight arrays; a leading seed axis in ensembles."""

# Up to this many products a broadcast-multiply-sum, which XLA fuses into one loop, beats the call
# into a matrix multiplication (measured on a CPU: 0.1 against 0.7 µs a step at D = 4, H = 5).
FUSED_PRODUCTS = 640


class Parametrisation(Enum):
    """How keys and queries make up the effective map, which decides which theory speaks of it."""

    MERGED = "merged"
    """One matrix a head."""
    SEPARATE = "separate"
    """Pairs of a key and a query."""


class AbstractAttention(abc.ABC):
    """A model that predicts the label of each prompt's query from named weights.

    `normalisation` is `"context"` (attention divided by N) or `"none"` (the authors' code, a `gain`
    of N on the normalised one). A model of your own subclasses this one, or
    `AbstractLinearAttention` where it has an effective map; CONTRIBUTING shows how.
    """

    heads: int
    normalisation: str
    activation: str = "linear"
    """`linear`, or `softmax`."""
    softmax_scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", whole_number("heads", self.heads))
        one_of("normalisation", self.normalisation, ("context", "none"))
        one_of("activation", self.activation, ("linear", "softmax"))
        number("softmax_scale", self.softmax_scale, above=0.0)

    @property
    @abc.abstractmethod
    def degree(self) -> int:
        """How many weights are multiplied in a prediction, or in one layer of it."""

    @property
    @abc.abstractmethod
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each weight's axes, in the order in which the weights are drawn."""

    @abc.abstractmethod
    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        """The shape of each weight at input dimension D."""

    @abc.abstractmethod
    def deviations(self, dimension: int) -> dict[str, float]:
        """The paper's standard deviation of each weight's entries at scale 1 (section 0)."""

    @abc.abstractmethod
    def conserved(self, weights: Weights) -> Weights:
        """The quantities that gradient flow keeps (T14)."""

    @property
    @abc.abstractmethod
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each conserved quantity's axes."""

    @abc.abstractmethod
    def predict(self, weights: Weights, prompts: Any, gain: Any = 1.0) -> Float[Array, " P"]:
        r"""$\hat y$ of each of `prompts`, which has x, y, lengths, summary and query."""

    @property
    def is_linear(self) -> bool:
        """Whether the prediction is linear in fixed features of the prompt (T6)."""
        return False

    def gain(self, context_length: int | None) -> float:
        """What multiplies the normalised attention: 1, or N without normalisation."""
        if self.normalisation == "context" or self.activation == "softmax":
            return 1.0
        if context_length is None:
            raise InvalidInput(
                "normalisation", self.normalisation, "needs one fixed context length, or 'context'"
            )
        return float(context_length)

    def time_unit(self, gain: float) -> float:
        r"""Units of flow time in one unit of this model's own time: $g^{2/\text{degree}}$.

        Weights $w / g^{1/\text{degree}}$ with gain g compute what $w$ compute with gain 1, and
        move along the same path that much faster (section 0: N merged, $N^{2/3}$ separate).
        """
        return float(gain ** (2 / self.degree))

    def check_weights(self, weights: Mapping[str, Any], dimension: int) -> Weights:
        """Validate given weights, without or with a leading seed axis; return float64 arrays."""
        shapes = self.shapes(dimension)
        if not isinstance(weights, Mapping) or set(weights) != set(shapes):
            got = sorted(weights) if isinstance(weights, Mapping) else weights
            raise InvalidInput("weights", got, f"must name {', '.join(shapes)}")
        ensemble = np.ndim(weights[next(iter(shapes))]) == len(next(iter(shapes.values()))) + 1
        lead: tuple[int, ...] = ()
        if ensemble:
            lead = (np.shape(weights[next(iter(shapes))])[0],)
        return {
            name: real_array(f"weights[{name!r}]", weights[name], lead + shape)
            for name, shape in shapes.items()
        }


class AbstractLinearAttention(AbstractAttention):
    r"""A model $\hat y = \beta^\top W x_q$ whose effective map $W$ is built from its weights.

    The effective map is that of the normalised attention, whatever the `normalisation`. With
    `activation="softmax"` the same weights are put to another use, and W says nothing.
    """

    blocks: str = "reduced"
    """`reduced`, or `full` where all blocks of value, key and query train (T5)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("blocks", self.blocks, ("reduced", "full"))

    @property
    def parametrisation(self) -> Parametrisation | None:
        """Which theory speaks of the model; None where it is of another kind."""
        return None

    @property
    def pairs(self) -> int:
        """R, the key–query pairs of a head of separate attention."""
        return 1

    def to_attention(self, weights: Weights) -> Weights:
        """The weights of the attention that the model is in other coordinates: v with U or k, q."""
        return weights

    def from_attention(self, weights: Weights) -> Weights:
        """The model's weights from those of the attention that it is."""
        return weights

    @abc.abstractmethod
    def capacity(self, dimension: int) -> int:
        """The largest rank that the effective map can have."""

    @abc.abstractmethod
    def effective_map(self, weights: Weights, gain: Any = 1.0) -> Float[Array, "D D"]:
        r"""$W$, so that $\hat y = \beta^\top W x_q$."""

    def coefficients(self, weights: Weights, gain: Any = 1.0) -> Array:
        """What multiplies the features that a linear model is linear in: W, or θ of T5."""
        return self.effective_map(weights, gain)

    @abc.abstractmethod
    def pull_back(self, weights: Weights, force: Array) -> Weights:
        r"""The velocity $-\frac12\partial L/\partial w$ of each weight.

        `force` is that of `coefficients`. The velocity is linear in it (T3), so that a rate may be
        multiplied into it.
        """

    @abc.abstractmethod
    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        """The same weights in the coordinates of another orthonormal basis (its columns)."""

    @abc.abstractmethod
    def balance(self, weights: Weights) -> Weights:
        """Rescale given weights so that every conserved quantity is zero."""

    @abc.abstractmethod
    def realise(self, effective_map: FloatArray) -> Weights:
        """The weights of least norm with a given effective map at gain 1 (T8)."""

    def predict(self, weights: Weights, prompts: Any, gain: Any = 1.0) -> Float[Array, " P"]:
        mapped = prompts.summary @ self.effective_map(weights, gain)
        return (mapped * prompts.query).sum(-1)

    @property
    def is_linear(self) -> bool:
        """Whether the prediction is linear in fixed features of the prompt (T6)."""
        return self.activation == "linear"

    @property
    def is_summarised(self) -> bool:
        r"""Whether the prediction needs no more of a context than $\beta$."""
        return self.is_linear and self.blocks == "reduced"

    @property
    def row_options(self) -> dict[str, Any]:
        """How the query's row is weighted (`query_row`)."""
        softmax = self.activation == "softmax"
        return {
            "softmax_scale": self.softmax_scale if softmax else None,
            "include_query": not softmax or self.normalisation == "none",
        }


def outer_sum(left: Float[Array, "J D"], right: Float[Array, "J D"]) -> Float[Array, "D D"]:
    r"""$\sum_j a_j b_j^\top$, as one fused loop where that is faster."""
    pairs, dimension = left.shape
    if pairs * dimension**2 <= FUSED_PRODUCTS:
        return (left[:, :, None] * right[:, None, :]).sum(0)
    return left.T @ right


def apply_to_rows(rows: Float[Array, "J D"], matrix: Float[Array, "D D"]) -> Float[Array, "J D"]:
    r"""$M a_j$ for every row $a_j$, as one fused loop where that is faster."""
    pairs, dimension = rows.shape
    if pairs * dimension**2 <= FUSED_PRODUCTS:
        return (rows[:, None, :] * matrix[None, :, :]).sum(-1)
    return rows @ matrix.T


def singular_parts(effective_map: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""$W = \sum_m s_m\, a_m b_m^\top$ without its vanishing terms: `a[m, D], s[m], b[m, D]`."""
    left, values, right = np.linalg.svd(effective_map)
    kept = values > 1e-12 * max(values[0], np.finfo(float).tiny)
    return left.T[kept], values[kept], right[kept]
