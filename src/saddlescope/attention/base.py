"""The interface of every model: what the dynamics, the theory and the user need of it."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.attention.formulas.query_row import RowOptions
from saddlescope.checks import FloatArray, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import part

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from saddlescope.risk import Objective
    from saddlescope.task import AbstractData, Prompts


T = TypeVar("T")


class Parametrisation(Enum):
    """How keys and queries form the effective map, which decides which theory applies.

    >>> import saddlescope as ss
    >>> ss.SeparateAttention(heads=2).parametrisation
    <Parametrisation.SEPARATE: 'separate'>
    """

    MERGED = "merged"
    """One matrix a head."""
    SEPARATE = "separate"
    """Pairs of a key and a query."""


@part("model")
class AbstractAttention(abc.ABC):
    """A model that predicts the label of each prompt's query from named weights.

    - `heads`: H, the number of heads.
    - `normalisation`: `context`, attention divided by N, or `none`, a `gain` of N on it, as in the
      authors' code.
    - `activation`: `linear` or `softmax`.
    - `softmax_scale`: what multiplies the scores before a softmax.

    A model of your own is a frozen dataclass that derives from this one, or from
    `AbstractLinearAttention` where it has an effective map. `examples/own_model.py` is one.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> model.shapes(task.dimension)
    {'v': (2,), 'k': (2, 1, 2), 'q': (2, 1, 2)}
    """

    heads: int
    normalisation: str
    activation: str = "linear"
    softmax_scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", whole_number("heads", self.heads))
        one_of("normalisation", self.normalisation, ("context", "none"))
        one_of("activation", self.activation, ("linear", "softmax"))
        scale = number("softmax_scale", self.softmax_scale, above=0.0)
        if self.activation == "linear" and scale != 1.0:
            raise InvalidInput("softmax_scale", self.softmax_scale, "needs activation='softmax'")

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
    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        r"""$\hat y$ of each of `prompts`."""

    @property
    def is_linear(self) -> bool:
        """Whether the prediction is linear in fixed features of the prompt (T6)."""
        return False

    @property
    def inert_sizes(self) -> tuple[str, ...]:
        """Fields by which the model can be padded with zeros: added weights stay zero.

        Such a model may share a program with a larger one, or one of more dimensions.
        """
        return ()

    @property
    def sums_heads(self) -> bool:
        """Whether heads, the first axis of every weight, add up to the coefficients.

        A head's velocity then depends on the other heads through the force alone, which stiff
        steps make use of.
        """
        return False

    @property
    def has_exact_loss(self) -> bool:
        """Whether the loss on a law is known exactly, without prompts."""
        return self.is_linear

    @property
    def has_vector_labels(self) -> bool:
        """Whether the prediction is a vector of D numbers rather than one."""
        return False

    def objective(self, task: AbstractData) -> Objective:
        """The loss that training on a task or on data descends."""
        if task.has_vector_labels and not self.has_vector_labels:
            raise InvalidInput("task", task, "its labels are vectors: they need LinearTransformer")
        return self._objective(task, self.gain(task.fixed_length))

    def _objective(self, task: AbstractData, gain: float) -> Objective:
        return task.prompt_objective(gain)

    def gain(self, context_length: int | None) -> float:
        """The factor on the normalised attention: 1, or N without normalisation."""
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

    def check_weights(self, weights: Mapping[str, ArrayLike], dimension: int) -> Weights:
        """Validate given weights, without or with a leading seed axis; return float64 arrays."""
        shapes = self.shapes(dimension)
        if not isinstance(weights, Mapping) or set(weights) != set(shapes):
            got = sorted(weights) if isinstance(weights, Mapping) else weights
            raise InvalidInput("weights", got, f"must name {', '.join(shapes)}")
        first, own = next(iter(shapes.items()))
        given = real_array(f"weights[{first!r}]", weights[first]).shape
        lead = given[:1] if len(given) == len(own) + 1 else ()
        return {
            name: real_array(f"weights[{name!r}]", weights[name], lead + shape)
            for name, shape in shapes.items()
        }


class AbstractLinearAttention(AbstractAttention):
    r"""A model $\hat y = \beta^\top W x_q$ whose effective map $W$ is built from its weights.

    The effective map is that of the normalised attention, whatever the `normalisation`. With
    `activation="softmax"` the same weights are put to another use, and W says nothing.

    - `blocks`: `reduced`, or `full` where all blocks of value, key and query train (T5).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.EigenvectorStart(0, init_scale=.5).weights(model, task, seed=0)
    >>> model.effective_map(weights).round(3).tolist()  # Σ v k qᵀ
    [[0.125, 0.0], [0.0, 0.0]]
    """

    blocks: str = "reduced"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("blocks", self.blocks, ("reduced", "full"))

    def _with_blocks(self, reduced: dict[str, T], others: dict[str, T]) -> dict[str, T]:
        """Entries by weight name, with the `others` where all blocks train."""
        return reduced if self.blocks == "reduced" else {**reduced, **others}

    @property
    def parametrisation(self) -> Parametrisation | None:
        """Which theory applies to the model; None where neither does."""
        return None

    @property
    def pairs(self) -> int:
        """R, the key–query pairs of a head of separate attention."""
        return 1

    def to_attention(self, weights: Weights) -> Weights:
        """The weights of the equivalent attention: v with U or k, q."""
        return weights

    def from_attention(self, weights: Weights) -> Weights:
        """The model's weights from those of the equivalent attention."""
        return weights

    @abc.abstractmethod
    def capacity(self, dimension: int) -> int:
        """The largest rank that the effective map can have."""

    @abc.abstractmethod
    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Float[Array, "D D"]:
        r"""$W$, so that $\hat y = \beta^\top W x_q$."""

    def coefficients(self, weights: Weights, gain: Array = 1.0) -> Array:
        """The coefficients of the features that the model is linear in: W, or θ of T5.

        It is proportional to the gain.
        """
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
        """Rescale weights, seed axis or not, so that every conserved quantity is zero."""

    @abc.abstractmethod
    def realise(self, effective_map: FloatArray) -> Weights:
        """The weights of least norm with a given effective map at gain 1 (T8)."""

    def _objective(self, task: AbstractData, gain: float) -> Objective:
        if not self.is_linear:
            return super()._objective(task, gain)
        return task.linear_objective(self.blocks, gain)

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
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
    def row_options(self) -> RowOptions:
        """How the query's row is weighted (`query_row`)."""
        softmax = self.activation == "softmax"
        return RowOptions(
            softmax_scale=self.softmax_scale if softmax else None,
            include_query=not softmax or self.normalisation == "none",
        )
