"""Gradient flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from saddlescope.arrays import Array
from saddlescope.checks import AnyArray, FloatArray, check_share, number, one_of
from saddlescope.dynamics.methods.base import PRECISIONS, AbstractMethod
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.attention import AbstractAttention
    from saddlescope.dynamics.kernels.choice import Kernel
    from saddlescope.dynamics.methods._integration import Control, FlowState
    from saddlescope.dynamics.methods._layout import Layout
    from saddlescope.dynamics.methods._problem import Problem


# Rounding errors of a float32 step are about a hundredth of this.
_LEAST_RTOL = 1e-5
# Learned weights are of order one.
_LARGE = 100.0


@kind("method", "flow")
@dataclass(frozen=True)
class GradientFlow(AbstractMethod):
    r"""Gradient flow $\tau\dot w = -\frac12\partial L/\partial w$ with τ = 1, to time `until`.

    An adaptive method of order five keeps the local error within `rtol` and `atol`. It is explicit
    (Tsitouras) until stability rather than accuracy limits its steps, as during a long rest at a
    fixed point; from then on, where that is cheaper, a stiff method (Rodas5P) takes over.

    - `rtol`: the relative error allowed in a step.
    - `atol`: the absolute error allowed in a step. Where weights start near it or below, lower it
      with them: from w = 1e-12 the time of the first drop errs by 3e-4 at the default.
    - `solver`: `auto`, or `explicit` or `stiff` throughout.

    In `float32`, `rtol` must be at least 1e-5.

    >>> GradientFlow(until=20_000).rtol
    1e-08
    """

    until: float
    rtol: float = 1e-8
    atol: float = 1e-11
    converged: float | None = None
    solver: str = "auto"
    precision: str = "float64"

    def __post_init__(self) -> None:
        for field in ("until", "rtol", "atol", "converged"):
            value = getattr(self, field)
            if value is not None or field != "converged":
                object.__setattr__(self, field, number(field, value, above=0.0))
        if self.rtol >= 1:
            raise InvalidInput("rtol", self.rtol, "must be below 1")
        check_share("converged", self.converged)
        one_of("solver", self.solver, ("auto", "explicit", "stiff"))
        if one_of("precision", self.precision, PRECISIONS) == "float32" and self.rtol < _LEAST_RTOL:
            raise InvalidInput("rtol", self.rtol, f"must be at least {_LEAST_RTOL:g} in float32")

    def tightened(self, factor: float) -> GradientFlow:
        """The same flow in float64 at tolerances divided by `factor`."""
        rtol, atol = self.rtol / factor, self.atol / factor
        return replace(self, rtol=rtol, atol=atol, precision="float64")

    def shortened(self, end: float) -> GradientFlow:
        return replace(self, until=end, converged=None)

    @property
    def end(self) -> float:
        return self.until

    @property
    def counts_steps(self) -> bool:
        return False

    @property
    def has_kernel(self) -> bool:
        return self.solver == "auto"

    @property
    def slow_advice(self) -> str:
        return "large weights need short steps: try a smaller init_scale or until"

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return np.asarray(clock, dtype=np.float64)

    def continues(self, earlier: AbstractMethod) -> bool:
        return isinstance(earlier, GradientFlow) and all(
            getattr(self, field) == getattr(earlier, field)
            for field in ("rtol", "atol", "solver", "precision")
        )

    def rule(self, model: AbstractAttention, layout: Layout, group: int) -> Control:
        from saddlescope.dynamics.methods._integration import Control, cost_of_stiff_step

        cost = cost_of_stiff_step(model, layout, group)
        return Control.of(cost * group, self.rtol, self.atol, self.solver)

    def begin(
        self, problem: Problem, seeds: Int[Array, " S"], weights: Float[Array, "S n"]
    ) -> FlowState:
        from saddlescope.dynamics.methods import _integration

        return _integration.begin(problem, weights)

    def prolong(  # type: ignore[override]
        self, problem: Problem, seeds: Int[Array, " S"], state: FlowState
    ) -> FlowState:
        from saddlescope.dynamics.methods import _integration

        return _integration.prolong(problem, state)

    def advance(  # type: ignore[override]
        self, problem: Problem, state: FlowState, budget: int
    ) -> tuple[FlowState, int]:
        from saddlescope.dynamics.methods import _integration

        return _integration.advance(problem, state, budget)

    def clock(self, state: FlowState) -> AnyArray:  # type: ignore[override]
        return np.asarray(state.solver.time)

    def about(self, kernel: Kernel | None, state: FlowState) -> dict[str, str]:  # type: ignore[override]
        share = float(np.mean(state.solver.is_stiff))
        first = "explicit" if kernel is None else "kernel"
        if self.solver != "auto" or share == 0:
            return {"solver": "stiff" if self.solver == "stiff" else first}
        return {"solver": f"{first}, then stiff for {share:.0%} of the seeds"}

    def failures(  # type: ignore[override]
        self, problem: Problem, state: FlowState, failed: AnyArray, starts: Float[Array, "F n"]
    ) -> list[str]:
        from saddlescope.dynamics.methods._integration import STALL_STEPS

        times, steps = self.clock(state)[failed], np.asarray(state.solver.steps)[failed]
        # Weights of ordinary size run out of steps only where the spacing of floats is too coarse.
        is_coarse = np.abs(np.asarray(state.solver.weights)[failed]).max(axis=-1) < _LARGE
        reasons = {
            False: f"the weights are too large for {self.precision}; try a smaller init_scale",
            True: f"{self.precision} resolves no shorter step there; try a larger init_scale",
        }
        return [
            f"{taken} steps got no further than time {time:.6g}; {self.slow_advice}"
            if taken >= STALL_STEPS
            else f"no step was small enough at time {time:.6g}: {reasons[coarse]}"
            for time, taken, coarse in zip(
                times.tolist(), steps.tolist(), is_coarse.tolist(), strict=True
            )
        ]
