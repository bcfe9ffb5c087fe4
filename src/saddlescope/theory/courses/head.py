"""One head of separate attention as it learns one eigenvector (T12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.checks import FloatArray, number
from saddlescope.errors import InvalidInput
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.parametrisation import check_size, given_times

_ROOT_THREE = np.sqrt(3.0)
# Where 2u³ − u⁶ = ½: the loss is midway down the drop.
_HALF_WAY = float(np.cbrt(1 - np.sqrt(0.5)))
# Beyond this size of u its powers of 1/u are summed: 11 of them reach the last digit.
_FAR, _POWERS = 4.0, np.arange(4, 37, 3)


@dataclass(frozen=True, eq=False, repr=False)
class HeadTimeCourse(BriefRepr):
    """A head with $v = ‖k‖ = ‖q‖$ on one eigenvector, in flow time.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> course = ss.theory.head_time_course(task, direction=0, start=.01, times=[0., 1000.])
    >>> round(course.drop_time, 1), round(course.saturation, 3)
    (619.1, 1.319)
    """

    time: Float[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    """v(t)."""
    fall: Float[np.ndarray, " T"]
    r"""By how much the head has lowered the loss, $2c_d v^3 - b_d\kappa_d v^6$."""
    saturation: float
    r"""The value at which it rests, $\xi_d^{1/3}$ (Z eq. 25)."""
    drop_time: float | None
    """When half of the drop is done; None if it never is or was at the start."""
    plateau: float | None
    """$1/(c_d v(0))$, the length of the plateau (Z eq. 68, 73); None from a negative start."""


def head_time_course(task: object, direction: int, start: float, times: object) -> HeadTimeCourse:
    r"""The course of one head along an eigenvector, by inverting its implicit solution (T12).

    $\dot v = c_d v^2 - b_d\kappa_d v^5$ (Z eq. 26, 66). With $u = v/\xi_d^{1/3}$ its solution is
    $c_d\xi_d^{1/3} t = F(u) - F(u_0)$ (Z eq. 67), where
    $F(u) = \frac16\ln\frac{1+u+u^2}{(1-u)^2} - \frac{1}{\sqrt3}\arctan\frac{2u+1}{\sqrt3}
    - \frac1u$. `direction` counts eigenvectors from 0, `start` is v(0), `times[T]` are not
    negative. From a negative start the head decays to zero and learns nothing.

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> course = head_time_course(task, direction=0, start=.01, times=[0, 600, 1000])
    >>> course.value.round(4).tolist(), round(course.drop_time, 1), round(course.plateau, 1)
    ([0.01, 0.2491, 1.3097], 619.0, 625.0)
    """
    task_modes = modes(task)
    (mode,) = task_modes.subset([direction])
    value = number("start", start)
    if value == 0:
        raise InvalidInput("start", start, "must not be zero: the head would stay there")
    check_size("start", value)
    time = given_times(times, rising=False)
    rest = float(np.cbrt(task_modes.amplitude[mode]))
    rate = float(task_modes.drive[mode]) * rest
    begin = value / rest
    scaled = _invert(begin, rate * time)
    drop_time = None
    if 0 < begin < _HALF_WAY:
        points = np.array([begin, _HALF_WAY])
        drop_time = float(np.diff(_elapsed(points, 1 - points))[0]) / rate
    return HeadTimeCourse(
        time=time,
        value=rest * scaled,
        fall=float(task_modes.drop[mode]) * (2 * scaled**3 - scaled**6),
        saturation=rest,
        drop_time=drop_time,
        plateau=1 / (rate * begin) if begin > 0 else None,
    )


def _elapsed_from_infinity(u: FloatArray, complement: FloatArray) -> FloatArray:
    """F(u) less its value at plus or minus infinity, for u above 1 or below 0.

    Where u is large F hardly differs from that value, and the difference alone says where u is.
    """
    near = _elapsed(u, complement) + np.sign(u) * np.pi / (2 * _ROOT_THREE)
    far = np.where(np.abs(u) > _FAR, u, _FAR)
    series = (far[..., None] ** -_POWERS.astype(float) / _POWERS).sum(-1)
    return np.where(np.abs(u) > _FAR, series, near)


def _elapsed(u: FloatArray, complement: FloatArray) -> FloatArray:
    """F(u) of T12, given 1 − u too, which u alone loses near 1."""
    logarithm = np.log1p(u + u**2) - 2 * np.log(np.abs(complement))
    angle = np.arctan((2 * u + 1) / _ROOT_THREE)
    return logarithm / 6 - angle / _ROOT_THREE - 1 / u


def half_way_lead() -> float:
    r"""κ of T18: $\kappa/(c_d\xi_d^{1/3})$ from half-way down to where a free head runs away.

    $\kappa = 1/u_h - \int_0^{u_h} u\,du/(1 - u^3)$ with $u_h^3 = 1 - 1/\sqrt2$.

    >>> round(half_way_lead(), 10)
    1.2533911927
    """
    point = np.array([_HALF_WAY])
    return float(-_elapsed(point, 1 - point)[0] - np.pi / (6 * _ROOT_THREE))


def _invert(begin: float, elapsed: FloatArray) -> FloatArray:
    """u at each elapsed time, by bisection in a coordinate that resolves 0, 1 and infinity."""
    if begin == 1:
        return np.ones_like(elapsed)
    if 0 < begin < 1:
        start, end = np.log(begin / (1 - begin)), 700.0
    elif begin > 1:
        start, end = np.log(begin - 1), -700.0
    else:
        start, end = np.log(-begin), -700.0
    since = _elapsed if 0 < begin < 1 else _elapsed_from_infinity
    target = elapsed + since(*_unfold(np.array([start]), begin))
    near, far = np.full(elapsed.shape, start), np.full(elapsed.shape, end)
    for _ in range(80):
        middle = (near + far) / 2
        reached = since(*_unfold(middle, begin)) <= target
        near, far = np.where(reached, middle, near), np.where(reached, far, middle)
    return _unfold((near + far) / 2, begin)[0]


def _unfold(coordinate: FloatArray, begin: float) -> tuple[FloatArray, FloatArray]:
    """u and 1 − u on the branch of the start: below zero, between 0 and 1, above 1."""
    if 0 < begin < 1:
        return 1 / (1 + np.exp(-coordinate)), 1 / (1 + np.exp(coordinate))
    size = np.exp(coordinate)
    return (1 + size, -size) if begin > 1 else (-size, 1 + size)
