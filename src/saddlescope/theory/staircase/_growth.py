r"""Growth from zero along the drive's own singular vectors, for any covariances (T18).

While all maps are small the force is $C = \Lambda\Sigma_w\Lambda_q = P\,\mathrm{diag}(c)\,Q^\top$:
keys grow along the columns of P, queries along those of Q. Where covariances do not commute a head
settles on other vectors, those of T19, and turns to them on its way down the first drop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.task.moments import RegressionMoments
from saddlescope.task.spectrum import SAME_EIGENVALUE
from saddlescope.theory._following import follow
from saddlescope.theory.landscape._abstract_modes import ROUNDING, AbstractModes
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.landscape._singular_modes import any_modes
from saddlescope.theory.parametrisation import population_law

# Where the head of K starts, in units of the size at which it would rest: what is left out before
# it is of the fifth order.
_SMALL = 1e-3
# How long it is followed, in units of 1/c_1 of θ: to a rest, and away from a saddle beside it.
_LONGEST = 1e4


@dataclass(frozen=True, eq=False)
class Growth:
    """What heads grow along."""

    keys: Float[np.ndarray, "D D"]
    """P."""
    queries: Float[np.ndarray, "D D"]
    """Q."""
    drive: Float[np.ndarray, " D"]
    """c, not negative."""

    @classmethod
    def of(cls, task: object) -> Growth:
        """The common eigenvectors where there are such, else the singular vectors of the drive."""
        task_modes = driven_modes(task)
        if isinstance(task_modes, Modes):
            return cls(task_modes.basis, task_modes.basis, task_modes.drive)
        return cls.along(population_law(task).moments().drive)

    @classmethod
    def along(cls, drive: Float[np.ndarray, "D D"]) -> Growth:
        """The singular vectors of a drive, the strongest first."""
        keys, strengths, queries = np.linalg.svd(drive)
        present = strengths > ROUNDING * strengths[0]
        return cls(keys, queries.T, np.where(present, strengths, 0.0))


def driven_modes(task: object) -> AbstractModes:
    """The modes of a task that has any to learn."""
    task_modes = any_modes(task)
    if not task_modes.order.size:
        raise TheoryDoesNotApply("nothing drives a head: no mode of the task can be learned")
    return task_modes


def single_head_delay(moments: RegressionMoments, drop: float) -> float:
    r"""$K = \lim_{s\to0}[1/(c_1 s) - t_h(s)]$ of T18, half-way down a drop.

    The head starts at $v = s$, $k = s p$, $q = s q$, balanced, so that $k = v\hat k$ and
    $q = v\hat q$ for ever, with $\frac{d}{dt}\frac1v = -g$, $g = \hat k^\top G\hat q$. Hence
    $K = \frac1{c_1 v_h} - \int(1 - g/c_1)\,dt$, whose integrand is of the order of $v$ in $dv$: the
    limit is taken before the run, and what lies before its start is
    $a s^2/(2 c_1^2)$ with $a = (p^\top B p)(q^\top\Lambda_q q)$, to the fifth order in s.
    """
    growth = Growth.along(moments.drive)
    first, *others = growth.drive
    if others and others[0] > (1 - SAME_EIGENVALUE) * first:
        raise TheoryDoesNotApply(
            "two singular values of the drive are the largest, so that the start decides what the "
            "first head grows along, and when it is half-way down (T18); runaway_times still holds"
        )
    size = len(moments.drive)
    key, query = growth.keys[:, 0], growth.queries[:, 0]
    weight = float((key @ moments.summary @ key) * (query @ moments.query @ query))
    # In units of 1/c_1 for θ = ∫v dt, and of (c_1/a)^{1/3} for v.
    drive, curved = moments.drive / first, moments.summary / weight
    half = drop * weight / first**2 / 2

    def force(state: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """G on the query and on the key, and g."""
        k, q, cube = state[:size], state[size : 2 * size], np.exp(3 * state[-2])
        pull = drive @ q - cube * (q @ moments.query @ q) * (curved @ k)
        push = k @ drive - cube * (k @ curved @ k) * (moments.query @ q)
        return pull, push, float(k @ pull)

    def velocity(state: FloatArray) -> FloatArray:
        pull, push, rate = force(state)
        turn = pull - rate * state[:size], push - rate * state[size : 2 * size]
        return np.concatenate([*turn, [rate, (1 - rate) * np.exp(-state[-2])]])

    def left(state: FloatArray) -> float:
        """How far the loss is above half-way."""
        k, q, cube = state[:size], state[size : 2 * size], np.exp(3 * state[-2])
        fallen = cube * (2 * k @ drive @ q - cube * (k @ curved @ k) * (q @ moments.query @ q))
        return half - float(fallen)

    begin = np.concatenate([key, query, [np.log(_SMALL), _SMALL**2 / 2]])
    path = follow("the first head (T18)", velocity, begin, _LONGEST, until=left)
    if path.event is None:
        raise TheoryDoesNotApply(
            "a head that grows along the strongest pair of singular vectors of the drive rests "
            "before the loss is half-way down the first drop (T18, T19); runaway_times and "
            "fixed_points still hold"
        )
    size_half_way, spent = path.states[-2:, -1]
    return float((np.exp(-size_half_way) - spent) / first * np.cbrt(weight / first))
