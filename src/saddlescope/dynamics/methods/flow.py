"""Gradient flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array
from saddlescope.checks import AnyArray, FloatArray, check_share, number
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.dynamics.methods._integration import FlowState
    from saddlescope.dynamics.methods._problem import Problem


@kind("method", "flow")
@dataclass(frozen=True)
class GradientFlow(AbstractMethod):
    r"""Gradient flow $\tau\dot w = -\frac12\partial L/\partial w$ with τ = 1, to time `until`.

    An adaptive fifth-order method keeps the local error within `rtol` and `atol`.

    - `rtol`: the relative error that a step may make.
    - `atol`: the absolute error that a step may make.

    >>> GradientFlow(until=20_000).rtol
    1e-08
    """

    until: float
    rtol: float = 1e-8
    atol: float = 1e-11
    converged: float | None = None

    def __post_init__(self) -> None:
        for field in ("until", "rtol", "atol", "converged"):
            value = getattr(self, field)
            if value is not None or field != "converged":
                object.__setattr__(self, field, number(field, value, above=0.0))
        check_share("converged", self.converged)

    def tightened(self, factor: float) -> GradientFlow:
        """The same flow at tolerances divided by `factor`."""
        return replace(self, rtol=self.rtol / factor, atol=self.atol / factor)

    def shortened(self, end: float) -> GradientFlow:
        return replace(self, until=end, converged=None)

    @property
    def end(self) -> float:
        return self.until

    @property
    def counts_steps(self) -> bool:
        return False

    @property
    def slow_advice(self) -> str:
        return "steps must be short where weights are large: try a smaller init_scale or until"

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return np.asarray(clock, dtype=np.float64)

    def continues(self, earlier: AbstractMethod) -> bool:
        return isinstance(earlier, GradientFlow) and (self.rtol, self.atol) == (
            earlier.rtol,
            earlier.atol,
        )

    def begin(self, problem: Problem, weights: Float[Array, "S n"]) -> FlowState:
        from saddlescope.dynamics.methods import _integration

        return _integration.begin(problem, self._tolerances, weights)

    def prolong(self, problem: Problem, state: FlowState) -> FlowState:  # type: ignore[override]
        from saddlescope.dynamics.methods import _integration

        return _integration.prolong(problem, state)

    def advance(  # type: ignore[override]
        self, problem: Problem, state: FlowState, budget: int
    ) -> tuple[FlowState, int]:
        from saddlescope.dynamics.methods import _integration

        return _integration.advance(problem, self._tolerances, state, budget)

    def clock(self, state: FlowState) -> AnyArray:  # type: ignore[override]
        return np.asarray(state.solver.time)

    def failure(self, problem: Problem, state: FlowState, seed: int) -> str:  # type: ignore[override]
        return (
            f"no step was small enough at time {float(state.solver.time[seed]):.6g}: the weights "
            "are too large for float64; try a smaller init_scale"
        )

    @property
    def _tolerances(self) -> tuple[float, float]:
        return self.rtol, self.atol
