"""The one abrupt drop of merged attention: closed form, reduced flow and plateau (T9–T11)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.theory._following import cross, follow
from saddlescope.theory.courses._alignment import ensemble_growth, initial_growth
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.parametrisation import GivenWeights, given_times

# The part of the start that does not grow may have this share of the amplitude at convergence.
# The largest error of the loss, as a share of the drop, is then about a tenth (measured at D = 4).
_SMALL_START = 0.05
# Midway down a drop of depth 2x − x², x = σ/ξ.
_HALF_WAY = 1 - np.sqrt(0.5)
# Below this share of the amplitude at convergence the drive is constant, to rounding.
_NEGLIGIBLE = 1e-14
_FLOW = "T10's flow"


@dataclass(frozen=True, eq=False, repr=False)
class TimeCourse(BriefRepr):
    """How merged attention learns, in flow time.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> course = ss.theory.time_course(task, init_scale=1e-3)
    >>> course.equation, round(course.loss_after, 4)
    ('T10', 0.0617)
    """

    time: Float[np.ndarray, " T"]
    loss: Float[np.ndarray, " T"]
    amplitude: Float[np.ndarray, " T"]
    """s(t), the Frobenius norm of the effective map."""
    diagonal: Float[np.ndarray, "T D"]
    """The effective map's diagonal in the common eigenbasis; the rest of it is zero."""
    drop_time: float | None
    """When the loss is midway between its two levels; None if it starts below."""
    loss_before: float
    loss_after: float
    equation: str
    """`T9`, the closed form of a white task, or `T10`, the reduced flow."""


@dataclass(frozen=True)
class PlateauDuration:
    """How long merged attention stays at zero, in flow time (T11).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> duration = ss.theory.plateau_duration(task, init_scale=.01)
    >>> round(duration.leading, 2), round(duration.aligned, 2)
    (25.09, 28.25)
    """

    leading: float
    r"""$\ln(1/w)/\|\Lambda^2\|_F$, the leading logarithm alone (Z eq. 51)."""
    aligned: float
    r"""$\ln(1/s(0))/(2\|\Lambda^2\|_F)$, whose error is a constant in time."""


def time_course(
    task: object,
    init_scale: float | None = None,
    *,
    weights: GivenWeights | None = None,
    model: AbstractAttention | None = None,
    times: object = None,
) -> TimeCourse:
    r"""The whole course of merged attention from a small start (T9, T10).

    White tasks: $\sigma(t) = \xi\,/\,[1 + (\xi/\sigma_0 - 1)e^{-2\sqrt D c t}]$ on the diagonal,
    the closed form T9 (Z eq. 15, 48), exact from its own start. Others: the rank-one flow
    $\dot s = 2 s\,m\cdot g$, $\dot m = g - (m\cdot g)m$ with $g_d = c_d - b_d\kappa_d s m_d$ from
    $m(0) \propto c$ (T10), D+1 scalars.

    Give either `init_scale`, the papers' w, for $s(0) = w^2(1 + 1/D^2)/4$, its mean; or `weights`
    `v[H]`, `U[H, D, D]` of one seed for their own s(0). `times[T]` is chosen if it is not given.

    >>> from saddlescope.task import InContextRegression
    >>> course = time_course(InContextRegression([.4, .3, .2, .1], context_length=31), 1e-3)
    >>> course.equation, round(course.drop_time, 1), float(course.loss[-1].round(5))
    ('T10', 42.9, 0.136)
    """
    task_modes = modes(task)
    start = initial_growth(task, init_scale, weights, model)
    _require_small(task_modes, np.array([start.amplitude]), np.array([start.rest]))
    grid = None if times is None else given_times(times)
    solve = _closed_form if _is_white(task_modes) else _reduced_flow
    return solve(task_modes, start.amplitude, grid)


def merged_drop_times(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, " S"]:
    """The `drop_time` of `time_course` for many seeds at once, NaN where it is None.

    `weights` have an axis of seeds in front.

    >>> from saddlescope.attention import MergedAttention, RandomStart
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), MergedAttention(heads=8)
    >>> starts = RandomStart(.01).ensemble(model, task, np.arange(3))
    >>> merged_drop_times(model, task, starts).round(1).tolist()
    [31.5, 28.6, 31.1]
    """
    task_modes = modes(task)
    amplitude, rest = ensemble_growth(task, weights, model)
    _require_small(task_modes, amplitude, rest)
    half_way = _closed_half_way if _is_white(task_modes) else _reduced_half_way
    return half_way(task_modes, amplitude)


def _require_small(modes: Modes, amplitude: FloatArray, rest: FloatArray) -> None:
    """Raise where a start has no part that grows, or one besides that is not small."""
    if not modes.order.size or (amplitude == 0).any():
        raise TheoryDoesNotApply(
            "the start has no part along the drive, so that nothing grows at first order (T10); "
            "fixed_points still hold"
        )
    converged = float(np.linalg.norm(modes.amplitude))
    if (rest > _SMALL_START * converged).any():
        raise TheoryDoesNotApply(
            f"the start is large: T10 needs the part of it that does not grow, {rest.max():.2g}, "
            f"well below the amplitude at convergence, {converged:.2g}; take a smaller scale; "
            "fixed_points and conserved_quantities still hold"
        )


def _is_white(modes: Modes) -> bool:
    """Whether all modes are alike."""
    own = modes.drive[modes.order], modes.saturation[modes.order]
    return all(np.ptp(values) <= 1e-9 * values.max() for values in own)


def plateau_duration(
    task: object,
    init_scale: float | None = None,
    *,
    weights: GivenWeights | None = None,
    model: AbstractAttention | None = None,
) -> PlateauDuration:
    """How long merged attention waits before its drop, in both forms of T11 (Z eq. 51).

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> round(plateau_duration(task, 1e-3).aligned, 1)
    40.2
    """
    task_modes = modes(task)
    start = initial_growth(task, init_scale, weights, model)
    rate = task_modes.growth_rate
    if not start.amplitude or not start.scale or not rate:
        raise TheoryDoesNotApply("the start has no part along the drive: the plateau has no end")
    leading, aligned = math.log(1 / start.scale), math.log(1 / start.amplitude) / 2
    return PlateauDuration(leading / rate, aligned / rate)


def _course(
    modes: Modes, time: FloatArray, diagonal: FloatArray, drop_time: float | None, equation: str
) -> TimeCourse:
    learned = np.zeros((len(time), modes.dimension))
    learned[:, modes.order] = diagonal
    fall = (2 * modes.drive * learned - modes.saturation * learned**2).sum(1)
    return TimeCourse(
        time=time,
        loss=modes.label_power - fall,
        amplitude=np.linalg.norm(learned, axis=1),
        diagonal=learned,
        drop_time=drop_time,
        loss_before=modes.label_power,
        loss_after=float(modes.levels[-1]),
        equation=equation,
    )


def _growth(modes: Modes, amplitude: FloatArray) -> tuple[float, float, FloatArray]:
    """T9's amplitude at convergence and rate, and its odds at the start for each s(0)."""
    size, best = len(modes.order), float(modes.amplitude[modes.order[0]])
    rate = 2 * math.sqrt(size) * float(modes.drive[modes.order[0]])
    return best, rate, best * math.sqrt(size) / amplitude - 1


def _closed_half_way(modes: Modes, amplitude: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """When T9's loss is half-way down from each s(0), NaN where it is so before."""
    _, rate, odds = _growth(modes, amplitude)
    half_way = odds * _HALF_WAY / (1 - _HALF_WAY)
    return np.log(half_way, out=np.full(half_way.shape, np.nan), where=half_way >= 1) / rate


def _closed_form(modes: Modes, amplitude: float, grid: FloatArray | None) -> TimeCourse:
    """T9."""
    own = np.array([amplitude])
    best, rate, odds = _growth(modes, own)
    drop_time = _or_none(_closed_half_way(modes, own))
    time = _default_times(drop_time, 36 / rate) if grid is None else grid
    diagonal = best / (1 + odds * np.exp(-rate * time))
    every = np.repeat(diagonal[:, None], len(modes.order), axis=1)
    return _course(modes, time, every, drop_time, "T9")


class _ReducedFlow:
    """T10, for ln s and m along the last axis."""

    def __init__(self, modes: Modes) -> None:
        self._drive, self._saturation = modes.drive[modes.order], modes.saturation[modes.order]
        self._middle = (modes.levels[0] - modes.levels[-1]) / 2
        self._least = _NEGLIGIBLE * float(np.linalg.norm(modes.amplitude))
        self._rate = 2 * float(np.linalg.norm(self._drive))

    def wait(self, amplitude: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """How long the amplitude grows at one rate before anything else changes.

        A solver finds nothing to limit its steps there, and would step over the drop.
        """
        waited: FloatArray = np.log(np.maximum(self._least / amplitude, 1.0)) / self._rate
        return waited

    def after_wait(self, amplitude: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S n"]:
        """The state once it has waited."""
        return self.begin(np.maximum(amplitude, self._least))

    def waiting(
        self, amplitude: Float[np.ndarray, " 1"], times: Float[np.ndarray, " T"]
    ) -> Float[np.ndarray, "n T"]:
        """The state while it waits."""
        begin = self.begin(amplitude)[0][:, None]
        grown = np.zeros((len(begin), len(times)))
        grown[0] = self._rate * times
        return begin + grown

    def begin(self, amplitude: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S n"]:
        direction = self._drive / np.linalg.norm(self._drive)
        every = np.broadcast_to(direction, (amplitude.size, direction.size))
        return np.concatenate([np.log(amplitude)[:, None], every], axis=1)

    def velocity(self, state: Float[np.ndarray, "*S n"]) -> Float[np.ndarray, "*S n"]:
        size, direction = np.exp(state[..., :1]), state[..., 1:]
        force = self._drive - self._saturation * (size * direction)
        along = (direction * force).sum(-1, keepdims=True)
        return np.concatenate([2 * along, force - along * direction], axis=-1)

    def to_go(self, state: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " S"]:
        """How far the loss is above half-way."""
        learned = np.exp(state[:, :1]) * state[:, 1:]
        falls: FloatArray = (2 * self._drive * learned - self._saturation * learned**2).sum(1)
        return self._middle - falls


def _reduced_half_way(modes: Modes, amplitude: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """When T10's loss is half-way down from each s(0), NaN where it is so before."""
    flow = _ReducedFlow(modes)
    begin = flow.after_wait(amplitude)
    times = np.full(amplitude.size, np.nan)
    above = flow.to_go(begin) > 0
    if above.any():
        longest = 1e3 * (1 + np.abs(begin[:, 0]).max()) / modes.growth_rate
        found = cross(_FLOW, flow.velocity, begin[above], longest, flow.to_go)
        if np.isnan(found).any():
            raise TheoryDoesNotApply(f"{_FLOW} does not come to its drop by time {longest:.3g}")
        times[above] = flow.wait(amplitude[above]) + found
    return times


def _reduced_flow(modes: Modes, amplitude: float, grid: FloatArray | None) -> TimeCourse:
    """T10."""
    own = np.array([amplitude])
    drop_time = _or_none(_reduced_half_way(modes, own))
    saturation = modes.saturation[modes.order]
    slowest = float(np.linalg.norm(modes.amplitude) * saturation.min())
    time = _default_times(drop_time, 20 / slowest) if grid is None else grid
    flow = _ReducedFlow(modes)
    wait = float(flow.wait(own)[0])
    states = flow.waiting(own, time[time < wait])
    later = time[time >= wait] - wait
    if later.size:
        begin = flow.after_wait(own)[0]
        followed = follow(_FLOW, flow.velocity, begin, float(later[-1]), at=later)
        states = np.concatenate([states, followed.states], axis=1)
    return _course(modes, time, (np.exp(states[0]) * states[1:]).T, drop_time, "T10")


def _or_none(time: Float[np.ndarray, " 1"]) -> float | None:
    return None if np.isnan(time[0]) else float(time[0])


def _default_times(drop_time: float | None, tail: float) -> FloatArray:
    """Even times through the drop, then ever sparser ones until all has converged."""
    if drop_time is None:
        return np.linspace(0.0, tail, 401)
    return np.concatenate(
        [
            np.linspace(0.0, 2 * drop_time, 300, endpoint=False),
            np.geomspace(2 * drop_time, 2 * drop_time + tail, 101),
        ]
    )
