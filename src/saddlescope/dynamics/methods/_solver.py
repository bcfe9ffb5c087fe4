"""The explicit method of the flow, and what it has in common with the one for stiff equations."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Float

Dense: TypeAlias = dict[str, Any]
"""What a step tells besides its end: all that interpolation inside it needs."""

_TABLEAU = diffrax.Tsit5.tableau
STAGES = [[float(entry) for entry in row] for row in _TABLEAU.a_lower]
ERROR = [float(entry) for entry in _TABLEAU.b_error]
# These coefficients keep the step steady where stability, not accuracy, bounds it: in the long rest
# at a fixed point.
PROPORTIONAL, INTEGRAL, SAFETY = 0.4, 0.2, 0.95


def combine(coefficients: list[float], slopes: list[Any]) -> Any:
    """The sum of slopes times coefficients, without those that are zero."""
    return sum(c * slope for c, slope in zip(coefficients, slopes, strict=False) if c)


class AbstractFlowSolver(diffrax.AbstractAdaptiveSolver):
    """A method of order five on a flat vector; its state is the slope at the left end."""

    term_structure: ClassVar = diffrax.AbstractTerm
    is_stiff: ClassVar[bool]
    """Whether it is made for stiff equations."""

    @abc.abstractmethod
    def controller(
        self, rtol: Array, atol: Array, norm: Callable[[Array], Array]
    ) -> diffrax.PIDController:
        """What chooses its steps."""

    def order(self, terms: Any) -> int:
        return 5

    def error_order(self, terms: Any) -> float:
        return 5.0

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Float[Array, " n"]:
        slope: Float[Array, " n"] = terms.vf(t0, y0, args)
        return slope


class UnrolledTsit5(AbstractFlowSolver):
    """`diffrax.Tsit5` on a flat vector, without diffrax's loop over stages.

    The vector fields here cost less than a microsecond, so that the general stage loop would be
    most of a step (measured: 23 µs a step against 9 at D = 4, H = 5, 6 seeds). Tableau, error
    estimate and interpolation are diffrax's. The method's last stage is the next one's first.

    `args` is a 1 that XLA cannot see through. Dividing by it keeps XLA from computing a stage anew
    in each of its many uses, for a division is too dear to repeat (measured: a third of a step).
    """

    is_stiff = False
    interpolation_cls: ClassVar[Callable[..., Any]] = lambda *, t0, t1, y0, y1, slopes: (
        diffrax.Tsit5.interpolation_cls(t0=t0, t1=t1, y0=y0, y1=y1, k=(t1 - t0) * jnp.stack(slopes))
    )

    def controller(
        self, rtol: Array, atol: Array, norm: Callable[[Array], Array]
    ) -> diffrax.PIDController:
        return diffrax.PIDController(
            rtol=rtol,
            atol=atol,
            norm=norm,
            pcoeff=PROPORTIONAL,
            icoeff=INTEGRAL,
            safety=SAFETY,
        )

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: Any,
        solver_state: Any,
        made_jump: Any,
    ) -> tuple[Any, Any, dict[str, Any], Any, Any]:
        width = t1 - t0
        slopes = [solver_state]
        y1 = y0
        for row in STAGES:
            y1 = (y0 + width * combine(row, slopes)) / args
            slopes.append(terms.vf(t0, y1, args))
        error = width * combine(ERROR, slopes)
        dense = {"y0": y0, "y1": y1, "slopes": tuple(slopes)}
        return y1, error, dense, slopes[-1], diffrax.RESULTS.successful
