"""The staircase of separate attention, predicted from its initial weights alone (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.attention import AbstractAttention
from saddlescope.checks import number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.parametrisation import (
    GivenWeights,
    is_merged,
    linear_model,
    normalised_weights,
)
from saddlescope.theory.staircase._race import Race

# A head that begins with this share of its final length leaves no plateau. At w = .5, where heads
# begin with about a third of it, the median error of the drop times is 1 % (D = 4, H = 4).
_LARGE = 0.5


@dataclass(frozen=True)
class PredictedDrop:
    """One step of the staircase."""

    time: float
    """When the loss is midway between the two plateaus, in flow time."""
    head: int
    """The head that learns."""
    direction: int
    """The eigenvector that it learns, counted from 0 in falling order of eigenvalue."""
    loss_before: float
    loss_after: float


@dataclass(frozen=True)
class Staircase:
    """What will happen until a given time."""

    drops: tuple[PredictedDrop, ...]
    never_learned: tuple[int, ...]
    """The eigenvectors that are not learned by then: no head is left for them, or those that are
    have the wrong sign or are too small."""
    final_loss: float
    """The level of the last plateau."""
    until: float
    learned_at_start: tuple[int, ...] = ()
    """The eigenvectors that the initial weights hold already."""


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
    task_modes = modes(task)
    task_modes.require_order("the staircase")
    if is_merged(model):
        raise InvalidInput("model", model, "must be separate; for merged attention see time_course")
    end = number("until", until, above=0.0)
    start = normalised_weights(model, task, weights)
    pairs = [(start[name] @ task_modes.basis).reshape(model.heads, -1) for name in ("k", "q")]
    race = Race(
        task_modes, np.concatenate([start["v"][:, None], *pairs], axis=1), linear_model(model).pairs
    )
    race.award_start()
    _require_small(race)
    held = tuple(sorted(mode for learned in race.learned.values() for mode in learned))
    levels, drops = task_modes.levels, []
    while not race.is_over and (crossing := race.next_crossing(end)) is not None:
        before, after = (float(loss) for loss in levels[race.count :][:2])
        race.award(crossing)
        drops.append(
            PredictedDrop(crossing.moment.time, crossing.head, crossing.mode, before, after)
        )
    learned = {drop.direction for drop in drops} | set(held)
    return Staircase(
        drops=tuple(drops),
        never_learned=tuple(int(mode) for mode in task_modes.order if int(mode) not in learned),
        final_loss=float(levels[race.count]),
        until=end,
        learned_at_start=held,
    )


def _require_small(race: Race) -> None:
    """Raise if a head that holds nothing is too large to wait on a plateau."""
    values = race.now.rows
    middle = (values.shape[1] + 1) // 2
    parts = values[:, :1], values[:, 1:middle], values[:, middle:]
    sizes = np.max([np.linalg.norm(part, axis=1) for part in parts], axis=0)
    rest = float(np.cbrt(race.modes.amplitude.max(initial=0.0)))
    for head, size in enumerate(sizes):
        if head not in race.winners and size > _LARGE * rest:
            raise TheoryDoesNotApply(
                f"the start is large: head {head} has length {size:.2g} where a head that has "
                f"learned has {rest:.2g}, so that there is no plateau to predict (T13); take a "
                "smaller scale; fixed_points and conserved_quantities still hold"
            )
