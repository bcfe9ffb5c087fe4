"""Following a flow that has no closed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float
from scipy.integrate import LSODA, DenseOutput, solve_ivp
from scipy.optimize import brentq

from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply

# Some seconds; a course takes thousands.
_MOST_EVALUATIONS = 200_000


@dataclass(frozen=True)
class Followed:
    """States along a flow, [n, T], and when the event that was waited for came, if it did."""

    states: FloatArray
    event: float | None


def follow(
    name: str,
    velocity: Callable[[FloatArray], FloatArray],
    begin: FloatArray,
    end: float,
    *,
    at: FloatArray | None = None,
    until: Callable[[FloatArray], float] | None = None,
    atol: float = 1e-12,
) -> Followed:
    """The flow of a velocity to time `end`, solved to a relative 1e-10; its states at `at`.

    It ends early where `until` comes to zero. `TheoryDoesNotApply` where it cannot be followed,
    under the `name` of the equation.
    """
    evaluations = count()

    def moved(time: float, state: FloatArray) -> FloatArray:
        if next(evaluations) > _MOST_EVALUATIONS:
            _give_up(name, time, f"in {_MOST_EVALUATIONS} evaluations")
        return velocity(state)

    def event(_: float, state: FloatArray) -> float:
        assert until is not None
        return until(state)

    event.terminal = True  # type: ignore[attr-defined]
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        # What SciPy warns of is in what it returns.
        warnings.simplefilter("ignore", UserWarning)
        solved = solve_ivp(
            moved,
            (0.0, max(end, 1e-9)),
            begin,
            method="LSODA",
            rtol=1e-10,
            atol=atol,
            t_eval=at,
            events=None if until is None else event,
        )
    if not solved.success or not np.isfinite(solved.y).all():
        _give_up(name, float(solved.t[-1]) if len(solved.t) else 0.0, "in float64")
    times = [] if until is None else solved.t_events[0]
    return Followed(np.asarray(solved.y), float(times[0]) if len(times) else None)


def cross(
    name: str,
    velocity: Callable[[FloatArray], FloatArray],
    begin: Float[np.ndarray, "S n"],
    end: float,
    until: Callable[[FloatArray], FloatArray],
) -> Float[np.ndarray, " S"]:
    """When `until` comes to zero along each of many flows of one velocity, NaN if not by `end`.

    They are followed together, to a relative 1e-10; both functions take the states of some of them,
    `[S, n]`. `TheoryDoesNotApply` where they cannot be followed.
    """
    count, size = begin.shape
    evaluations = 0

    def moved(time: float, state: FloatArray) -> FloatArray:
        nonlocal evaluations
        evaluations += 1
        if evaluations > _MOST_EVALUATIONS:
            _give_up(name, time, f"in {_MOST_EVALUATIONS} evaluations")
        return velocity(state.reshape(begin.shape)).reshape(-1)

    # Flows do not feel one another: the Jacobian is a band.
    band = size - 1
    solver = LSODA(
        moved, 0.0, begin.reshape(-1), end, rtol=1e-10, atol=1e-12, lband=band, uband=band
    )
    times = np.full(count, np.nan)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", UserWarning)
        while solver.status == "running" and np.isnan(times).any():
            solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                _give_up(name, solver.t, "in float64")
            crossed = np.isnan(times) & (until(solver.y.reshape(begin.shape)) <= 0)
            if crossed.any():
                inside = solver.dense_output()
                for own in np.flatnonzero(crossed).tolist():
                    times[own] = _root_inside(inside, until, slice(own * size, (own + 1) * size))
    return times


def _root_inside(
    inside: DenseOutput, until: Callable[[FloatArray], FloatArray], own: slice
) -> float:
    """When it comes to zero within a step, of the flow whose state is a part of all."""

    def left(time: float) -> float:
        return float(until(inside(time)[None, own])[0])

    return float(brentq(left, inside.t_old, inside.t, xtol=1e-12 * inside.t))


def _give_up(name: str, time: float, within: str) -> None:
    raise TheoryDoesNotApply(
        f"{name} cannot be followed beyond time {time:.3g} {within}: "
        "its rates lie too far apart, or its start is too large"
    )
