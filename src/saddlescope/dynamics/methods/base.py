"""The interface of training methods: fields, a clock, and a state that advances."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from jaxtyping import Float, Int

from saddlescope.arrays import Array
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.setting.kinds import part

if TYPE_CHECKING:
    import equinox as eqx

    from saddlescope.attention import AbstractAttention
    from saddlescope.dynamics.kernels.choice import Kernel
    from saddlescope.dynamics.methods._layout import Layout
    from saddlescope.dynamics.methods._problem import AbstractState, Problem


PRECISIONS = ("float64", "float32")


@part("method")
class AbstractMethod(abc.ABC):
    """Gradient flow, gradient descent, …: how weights move.

    - `until`: the flow time at which the run ends.
    - `steps`: how many steps are taken.
    - `learning_rate`: η of W ← W − η ∂L/∂W.
    - `converged`: a seed stops once its recorded loss is this close to the least possible one, as a
      share of the total possible gain; its later records repeat that state.
    - `batch_size`: how many fresh prompts a step takes.
    - `key`: the random key of the prompts, combined with each seed.
    - `precision`: `float64`, or `float32` for speed; records have it too.

    >>> from saddlescope.setting.kinds import kinds_of
    >>> list(kinds_of("method"))  # what --method takes
    ['flow', 'descent', 'stochastic_descent', 'optimiser']
    """

    converged: float | None
    precision: str = "float64"

    @property
    @abc.abstractmethod
    def end(self) -> float:
        """The last time or step."""

    @property
    @abc.abstractmethod
    def counts_steps(self) -> bool:
        """Whether the method's clock counts steps rather than flow time."""

    @property
    def is_stochastic(self) -> bool:
        """Whether steps are taken on freshly drawn prompts."""
        return False

    @property
    def is_autonomous(self) -> bool:
        """Whether the weights alone determine how they move, so that a path can be retraced."""
        return self.has_flow_time and not self.is_stochastic

    @property
    def keeps_zeros(self) -> bool:
        """Whether weights that are zero and feel no force stay zero, whatever the others do."""
        return self.is_autonomous

    @property
    def has_flow_time(self) -> bool:
        """Whether the clock converts to flow time, so that theory can predict times."""
        return True

    @abc.abstractmethod
    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        """Flow time (τ = 1) since the start; `unit` as in `AbstractAttention.time_unit`."""

    @abc.abstractmethod
    def shortened(self, end: float) -> AbstractMethod:
        """The same method to another last time or step, without stopping at convergence."""

    def continues(self, earlier: AbstractMethod) -> bool:
        """Whether this method can continue the state of another method's run exactly."""
        return False

    @property
    def has_kernel(self) -> bool:
        """Whether a GPU kernel may run it."""
        return False

    @property
    def slow_advice(self) -> str:
        """What to change when a run would take more than a day."""
        return "take fewer steps"

    @abc.abstractmethod
    def rule(self, model: AbstractAttention, layout: Layout, group: int) -> eqx.Module:
        """The method's fields as arrays, for a model whose seeds advance in groups of `group`."""

    @abc.abstractmethod
    def begin(
        self, problem: Problem, seeds: Int[Array, " S"], weights: Float[Array, "S n"]
    ) -> AbstractState:
        """The state at the first point of the grid."""

    @abc.abstractmethod
    def prolong(
        self, problem: Problem, seeds: Int[Array, " S"], state: AbstractState
    ) -> AbstractState:
        """Extend a finished run to a grid that begins where its own ended."""

    @abc.abstractmethod
    def advance(
        self, problem: Problem, state: AbstractState, budget: int
    ) -> tuple[AbstractState, int]:
        """Advance by about `budget` steps or fewer; the new state and the steps taken."""

    @abc.abstractmethod
    def clock(self, state: AbstractState) -> AnyArray:
        """Each seed's time on the method's clock, [S]."""

    def about(self, kernel: Kernel | None, state: AbstractState) -> dict[str, str]:
        """Attributes of a run's dataset that the method adds."""
        return {} if kernel is None else {"solver": "kernel"}

    @abc.abstractmethod
    def failures(
        self, problem: Problem, state: AbstractState, failed: AnyArray, starts: Float[Array, "F n"]
    ) -> list[str]:
        """What happened to each failed seed, and the cure, in one line each.

        `failed` are their indices in the ensemble, `starts` the initial weights of some of them.
        """
