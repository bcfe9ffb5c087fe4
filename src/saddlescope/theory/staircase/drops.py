"""The staircase of separate attention, predicted from its initial weights alone (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention
from saddlescope.checks import AnyArray, FloatArray, number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.running.cores import on_all_cores
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.parametrisation import (
    GivenWeights,
    is_merged,
    linear_model,
    normalised_ensemble,
)
from saddlescope.theory.staircase._heads import split_rows
from saddlescope.theory.staircase._open_races import open_races
from saddlescope.theory.staircase._race import Finish, Race

# Seeds that race together, and threads that follow them.
_TOGETHER, _THREADS = 512, 4
# A head that begins with this share of its final length leaves no plateau. At w = .5, where heads
# begin with about a third of it, the median error of the drop times is 1 % (D = 4, H = 4).
_LARGE = 0.5


@dataclass(frozen=True)
class PredictedDrop:
    """One step of the staircase.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(.01).weights(model, task, seed=0)
    >>> first = ss.theory.predict_staircase(model, task, weights).drops[0]
    >>> first.direction, round(first.loss_after, 4)
    (0, 0.3326)
    """

    time: float
    """When the loss is midway between the two plateaus, in flow time."""
    head: int
    """The head that learns."""
    direction: int
    """The eigenvector that it learns, counted from 0 in falling order of eigenvalue."""
    loss_before: float
    loss_after: float
    margin: float
    """How much later another head would have won it, by quadrature (T18)."""
    is_open: bool
    """Whether its race, or an earlier one, was so close that the time may be far off."""


@dataclass(frozen=True)
class Staircase:
    """The predicted staircase of one seed up to a given time.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(.01).weights(model, task, seed=0)
    >>> staircase = ss.theory.predict_staircase(model, task, weights, until=1e5)
    >>> [drop.direction for drop in staircase.drops]
    [0, 1]
    """

    drops: tuple[PredictedDrop, ...]
    not_by_then: tuple[int, ...]
    """The eigenvectors that are not learned by then."""
    next_time: float | None
    """When the next of them would come, by quadrature (T18); None where no head is left for it."""
    final_loss: float
    """The level of the last plateau."""
    until: float
    learned_at_start: tuple[int, ...] = ()
    """The eigenvectors that the initial weights hold already."""


@dataclass(frozen=True, eq=False, repr=False)
class Staircases(BriefRepr):
    """The predicted staircases of many seeds, as arrays.

    Seeds are along the first axis, drops along the second; `learned_at_start` says what a start
    holds already.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> import numpy as np
    >>> weights = ss.RandomStart(.01).ensemble(model, task, np.arange(3))
    >>> ss.theory.predict_staircases(model, task, weights).time.shape
    (3, 2)
    """

    modes: Modes
    until: float
    time: Float[np.ndarray, "S M"]
    """When the loss is midway down each drop; infinite where it is not by then."""
    head: Int[np.ndarray, "S M"]
    direction: Int[np.ndarray, "S M"]
    margin: Float[np.ndarray, "S M"]
    learned_at_start: Bool[np.ndarray, "S D"]
    next_time: Float[np.ndarray, " S"]
    size: Float[np.ndarray, " S"]
    """The largest head that holds nothing at the start, in lengths of one that has learned."""
    stuck: Bool[np.ndarray, " S"]
    """Whether the integration failed before the end."""

    @property
    def is_open(self) -> Bool[np.ndarray, "S M"]:
        """The drops of which another head, or that of an earlier one, came close to winning."""
        return open_races(self.time, self.margin, self.modes.rise_time[self.direction])

    def reason(self, seed: int) -> TheoryDoesNotApply | None:
        """Why nothing is predicted of the seed at an index; None where it is."""
        if self.size[seed] > _LARGE:
            return TheoryDoesNotApply(
                f"the start is large: a head has {self.size[seed]:.2g} of the length of one that "
                "has learned, so that there is no plateau to predict (T13); take a smaller scale; "
                "fixed_points and conserved_quantities still hold"
            )
        if self.stuck[seed]:
            return TheoryDoesNotApply(
                f"the heads cannot be followed to time {self.until:.3g}: the eigenvalues are too "
                "far apart, or the end is too far away"
            )
        return None

    def of(self, seed: int) -> Staircase:
        """The staircase of the seed at an index."""
        came = np.isfinite(self.time[seed])
        held = np.flatnonzero(self.learned_at_start[seed])
        levels = self.modes.levels[held.size :]
        parts = zip(
            *(part[seed][came].tolist() for part in (self.time, self.head, self.direction)),
            levels[:-1].tolist(),
            levels[1:].tolist(),
            self.margin[seed][came].tolist(),
            self.is_open[seed][came].tolist(),
            strict=False,
        )
        drops = tuple(PredictedDrop(*own) for own in parts)
        learned = {drop.direction for drop in drops} | set(held.tolist())
        ahead = float(self.next_time[seed])
        return Staircase(
            drops=drops,
            not_by_then=tuple(m for m in self.modes.order.tolist() if m not in learned),
            next_time=ahead if np.isfinite(ahead) else None,
            final_loss=float(levels[len(drops)]),
            until=self.until,
            learned_at_start=tuple(held.tolist()),
        )


def predict_staircase(
    model: AbstractAttention, task: object, weights: GivenWeights, until: float = 1e6
) -> Staircase:
    r"""Every drop of the loss of separate attention, of any rank, from a small start (T13).

    Each head moves on its own, under its own map and those of the heads that won before it:
    $G_i = \Lambda\Sigma_w\Lambda_q - B(P W_i P' + \sum_{j\text{ before }i}W_j)\Lambda_q$. The
    first one that takes the loss half-way down the next drop, $\frac12(L_m + L_{m+1})$, wins that
    drop, and the others feel it from the moment when it became noticeable: by the map that it has
    while it rises, by what it has learned once it has settled. P and P' take out the directions
    that the winners hold, since they give up at once what head i adds there. A head of rank R can
    win R times. Nobody feels a head that has not won: that is the approximation. It is good where
    heads rise one after another, and its error falls with the scale of the start.

    `weights` are `v[H]`, `k, q[H, R, D]` of one seed, in the task's own coordinates and in the
    model's own normalisation; times are flow times up to `until`.

    >>> from saddlescope.attention import RandomStart, SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=3)
    >>> staircase = predict_staircase(model, task, RandomStart(.01).weights(model, task, seed=0))
    >>> [(drop.direction, round(drop.loss_after, 4)) for drop in staircase.drops]
    [(0, 0.3326), (1, 0.0617)]
    """
    found = predict_staircases(model, task, weights, until)
    if len(found.time) > 1:
        raise InvalidInput("weights", weights, "must be those of one seed; see predict_staircases")
    if (reason := found.reason(0)) is not None:
        raise reason
    return found.of(0)


def predict_staircases(
    model: AbstractAttention, task: object, weights: GivenWeights, until: float = 1e6
) -> Staircases:
    """As `predict_staircase`, of all seeds at once, which `weights` have along their first axis.

    The race is T13's.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> import numpy as np
    >>> weights = ss.RandomStart(.01).ensemble(model, task, np.arange(3))
    >>> ss.theory.predict_staircases(model, task, weights).direction.tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    task_modes = modes(task)
    task_modes.require_order("the staircase")
    if is_merged(model):
        raise InvalidInput("model", model, "must be separate; for merged attention see time_course")
    end = number("until", until, above=0.0)
    start, _ = normalised_ensemble(model, task, weights)
    seeds = len(start["v"])
    rank = linear_model(model).pairs
    shape = (seeds, model.heads, rank * task_modes.dimension)
    pairs = [(start[name] @ task_modes.basis).reshape(shape) for name in "kq"]
    rows = np.concatenate([start["v"][:, :, None], *pairs], axis=2)

    def block(first: int) -> tuple[Finish, FloatArray]:
        own = np.ascontiguousarray(np.moveaxis(rows[first : first + _TOGETHER], 0, 2))
        race = Race(task_modes, own, rank, end)
        held = race.begin()
        size = _sizes(task_modes, own, race.racing)
        return race.finish(held, size > _LARGE), size

    blocks = on_all_cores(block, range(0, max(seeds, 1), _TOGETHER), _THREADS)

    def joined(name: str) -> AnyArray:
        parts: AnyArray = np.concatenate([getattr(own, name).T for own, _ in blocks])
        return parts

    return Staircases(
        task_modes,
        end,
        joined("time"),
        joined("head"),
        joined("mode"),
        joined("margin"),
        joined("at_start"),
        joined("next_time"),
        np.concatenate([size for _, size in blocks]),
        joined("stuck"),
    )


def _sizes(
    task_modes: Modes, rows: FloatArray, racing: Bool[np.ndarray, "H S"]
) -> Float[np.ndarray, " S"]:
    """The largest of the heads that hold nothing, in lengths of one that has learned."""
    value, *pair = split_rows(rows, 1)
    sizes = np.max([np.abs(value), *(np.sqrt((part**2).sum((1, 2))) for part in pair)], axis=0)
    rest = float(np.cbrt(task_modes.amplitude.max(initial=0.0)))
    largest = np.where(racing, sizes, 0.0).max(0)
    return np.divide(largest, rest, out=np.zeros_like(largest), where=rest > 0)
