"""Drop times as integrals: dormant heads, the first drop and the staircase (T18)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention
from saddlescope.errors import InvalidInput
from saddlescope.theory.courses.head import half_way_lead
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.parametrisation import (
    GivenWeights,
    is_merged,
    normalised_ensemble,
    population_law,
)
from saddlescope.theory.staircase._dormant_heads import DormantHeads
from saddlescope.theory.staircase._growth import Growth, driven_modes, single_head_delay
from saddlescope.theory.staircase._open_races import open_races


@dataclass(frozen=True, eq=False, repr=False)
class DormantStaircase(BriefRepr):
    """The drops of every seed, in the order of the drives; infinite where none comes.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(.01).weights(model, task, seed=0)
    >>> ss.theory.dormant_staircase(model, task, weights).direction.tolist()
    [0, 1]
    """

    time: Float[np.ndarray, "*S M"]
    """When the loss is midway down each drop, in flow time."""
    head: Int[np.ndarray, "*S M"]
    """The head that runs away, −1 where none does."""
    direction: Int[np.ndarray, " M"]
    """The eigenvector that is learned: those of the largest drive come first."""
    margin: Float[np.ndarray, "*S M"]
    """How much later the next head would have come: the race of a small one is open."""
    rise_time: Float[np.ndarray, " M"]
    r"""How long a head takes to learn each, $1/(c_d\xi_d^{1/3})$."""

    @property
    def is_open(self) -> Bool[np.ndarray, "*S M"]:
        """The drops of which another head, or that of an earlier one, came close to winning."""
        return open_races(self.time, self.margin, self.rise_time)


def runaway_times(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, "*S H"]:
    r"""When each head of separate attention runs away from zero, were it alone (T18).

    Exact while all maps are small, at any rank: $t^* = \int d\theta/\sqrt{F(\theta)}$ along the
    head's way, there and back where it turns. Every head runs away in the end, but for a set of
    starts of measure zero. `weights` are those of one seed or have a seed axis in front.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=1)
    >>> balanced = {"v": [.01], "k": [[[.01, 0]]], "q": [[[.01, 0]]]}
    >>> runaway_times(model, task, balanced).round(3)  # Z eq. 68: 1/(c v)
    array([625.])
    """
    heads, has_seeds = _heads_of(model, task, weights)
    times = heads.runaways()
    return times if has_seeds else times[0]


def first_drop_times(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, " *S"]:
    r"""When the loss of separate attention of any rank drops first (T18).

    $\min_i t^*_i - \kappa/(c_1\xi_1^{1/3})$ with κ = 1.2533911927, exact as the scale of the start
    falls to zero. Where covariances do not commute it is $\min_i t^*_i - K$, with K from the one
    run of a single head (`first_drop_delay`), and the drop is that to the first of
    `plateau_losses`.

    >>> from saddlescope.attention import RandomStart, SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .1], 31, task_covariance=[[1, .5], [.5, 1]])
    >>> model = SeparateAttention(heads=3)
    >>> start = RandomStart(.01).weights(model, task, seed=0)
    >>> float(first_drop_times(model, task, start).round(1))
    1696.5
    """
    heads, has_seeds = _heads_of(model, task, weights)
    times = heads.soonest() - first_drop_delay(model, task)
    return np.asarray(times if has_seeds else times[0])


def first_drop_delay(model: AbstractAttention, task: object) -> float:
    r"""How long before the runaway the loss is half-way down: $\kappa/(c_1\xi_1^{1/3})$ (T12).

    Where covariances do not commute, $K = \lim_{s\to0}[1/(c_1 s) - t_h(s)]$ of the head that starts
    at size s along the strongest pair of singular vectors of the drive, and takes the loss half-way
    down at $t_h$ (T18).
    """
    _require_separate(model)
    task_modes = driven_modes(task)
    if not isinstance(task_modes, Modes):
        return single_head_delay(population_law(task).moments(), float(task_modes.drop[0]))
    return half_way_lead() * float(task_modes.rise_time[task_modes.order[0]])


def dormant_staircase(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> DormantStaircase:
    r"""Every drop of separate attention, from a small start, at any rank (T18).

    The head that runs away first learns the eigenvector of the largest drive that is left, and the
    others feel that this drive is gone from $t^* - 1/(c_d\xi_d^{1/3})$ on. At rank R > 1 a head
    that holds some eigenvectors and has room for another rests at $v = (\sum\xi)^{1/3}$ while
    what it has of the next one grows as $e^{vc_dt}$, and wins it if it comes before the others.

    The error is of the order of the start's scale w: measured over 24 starts each of the papers'
    spectrum, at (H, R) = (5, 1) 1e-3 in the median and .11 at worst at w = .01, 5e-5 and 5e-3 at
    w = .001; at (4, 2) 1e-3 and 8e-3, 7e-5 and 3e-4; at (3, 3) 1e-4 and 1e-2, 1e-5 and 1e-3.
    `predict_staircase` (T13) is finer at finite w and dearer. `weights` are those of one seed or
    have a seed axis in front.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(.01).weights(model, task, seed=0)
    >>> drops = ss.theory.dormant_staircase(model, task, weights)
    >>> drops.direction.tolist(), drops.time.shape
    ([0, 1], (2,))
    """
    task_modes = modes(task)
    heads, has_seeds = _heads_of(model, task, weights)
    task_modes.require_order("the staircase")
    staircase = heads.staircase(task_modes)
    found = (staircase.time, staircase.head, staircase.margin)
    time, head, margin = found if has_seeds else (part[0] for part in found)
    return DormantStaircase(
        time, head, staircase.mode, margin, task_modes.rise_time[staircase.mode]
    )


def _require_separate(model: AbstractAttention) -> None:
    if is_merged(model):
        raise InvalidInput("model", model, "must be separate; for merged attention see time_course")


def _heads_of(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> tuple[DormantHeads, bool]:
    """The heads of all seeds along what they grow along, and whether there is an axis of seeds."""
    _require_separate(model)
    growth = Growth.of(task)
    named, has_seeds = normalised_ensemble(model, task, weights)
    keys, queries = named["k"] @ growth.keys, named["q"] @ growth.queries
    return DormantHeads(growth.drive, named["v"], keys + queries, keys - queries), has_seeds
