"""Staircases of separate attention of several ranks: what Figures 4 and 9 share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal
from saddlescope.figures.kit.mistake import Mistake, changed, rolled
from saddlescope.figures.kit.panels import THEORY, THEORY_COLOUR, TIME_LABEL, colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import (
    FIXED,
    STAIRCASE,
    on_logarithmic_grid,
    padded_loss,
    wrong_levels,
)
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.task import AbstractData
from saddlescope.theory import plateau_losses

RANKS = STAIRCASE.replace(
    heads=9,
    spectrum="power:8:1",
    until=150_000.0,
    # A seed stops once its loss is this close to the least one, as a share of the whole descent.
    converged=1e-4,
    points=1000,
    weights=False,
)
"""The runs of Figure 4, and in less time of Figure 9, of which each rank is one."""

QUICK_RANKS = RANKS.replace(seeds=2, until=40_000.0, points=600)
"""The same in short."""

VARIED = (*FIXED, "rank", "at", "spacing")
"""The fields that these figures vary themselves."""

CONSPICUOUS = 0.15
"""A plateau is conspicuous if it lasts longer than this share of the time that has then passed.

It was chosen on these runs, in the gap that they show: of some 890 plateaus at other m than the
multiples of R the longest lasted .14, half of those at multiples over .3.
"""

# Records are logarithmic and begin at this share of the run, before the first drop.
_FIRST_RECORD = 1 / 300
# Where the drawn clock begins, and the losses that are marked.
_FIRST_SHOWN = 1e3
_TICKS = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
# What is known of a plateau's loss: the rest that `converged` leaves of the last step is .003.
_LEVEL_TOLERANCE = 0.005
# Two heads can rise together by chance: at least this share of plateaus at multiples is long.
_MOST = 0.75


def train_ranks(
    watch: Watch,
    setting: Setting,
    ranks: Sequence[int],
    *,
    law: AbstractData | None = None,
    name: str = "rank",
) -> xr.Dataset:
    """Train each rank; losses, drop times and plateaus over (rank, seed), missing ones NaN.

    Records are at logarithmic times. `plateau_share[rank, seed, plateau]` is how long each plateau
    lasts, between the midway crossings before and after it, as a share of the time at its end. A
    plateau that outlasts the run counts up to the end of the run if it is conspicuous by then; else
    it is missing. `law` gives the levels if the setting's task is data; `name` names the runs.
    """
    levels, until = plateau_losses(law or setting.task), setting.method.end
    recorded = on_logarithmic_grid(setting, _FIRST_RECORD, setting.record.points)
    time = np.concatenate([[0.0], np.asarray(recorded.record.at)])
    runs = [
        watch.train(f"{name}-{rank}", recorded.replace(rank=rank)) for rank in watch.each(ranks)
    ]
    losses = np.array([padded_loss(run, time) for run in runs])
    drops = drop_times(losses, levels, time)
    plateaus = [
        [plateau_levels(time, loss, at) for loss, at in zip(rows, times, strict=True)]
        for rows, times in zip(losses, drops, strict=True)
    ]
    return xr.Dataset(
        {
            "loss": (("rank", "seed", "time"), losses),
            "level_loss": ("level", levels),
            "plateau_loss": (("rank", "seed", "level"), np.array(plateaus)),
            "drop_time": (("rank", "seed", "drop"), drops),
            "plateau_share": (("rank", "seed", "plateau"), _shares(drops, until)),
        },
        coords={
            "rank": list(ranks),
            "seed": list(setting.seeds),
            "time": time,
            "level": np.arange(len(levels)),
            "drop": np.arange(1, len(levels)),
            "plateau": np.arange(len(levels) - 1),
        },
    )


def is_multiple(data: xr.Dataset, dimension: str) -> AnyArray:
    """Whether each plateau or level is at a multiple of the rank, over (rank, dimension)."""
    return data[dimension].to_numpy() % data["rank"].to_numpy()[:, None] == 0


def rank_claims(data: xr.Dataset) -> tuple[Claim, ...]:
    """Where the plateaus are, how long they last and how deep they lie (Z section 5, E.4; T7)."""
    return (
        *share_claims(data),
        at_most(
            "plateaus at multiples of R lie at the losses of the fixed points (T7): largest "
            "error of each rank, as a share of the height of the drop",
            _level_errors(data),
            _LEVEL_TOLERANCE,
        ).stated_in("Z 24, 59"),
    )


def share_claims(data: xr.Dataset, where: str = "") -> tuple[Claim, ...]:
    """Where the plateaus are and how long they last; `where` begins each claim."""
    share = data["plateau_share"].to_numpy()
    multiple = is_multiple(data, "plateau")
    begin = f"{where}: " if where else ""
    long, short = share > CONSPICUOUS, share <= CONSPICUOUS
    # Late in a run mostly the lengths of short plateaus are known, since the long ones have not
    # ended: those that are missing must not be left out of the count.
    most_long, most_short = (kind.sum(axis=1) > share.shape[1] / 2 for kind in (long, short))
    settled = most_long | most_short
    at_multiples = (long | short) & multiple[:, None]
    between = np.nanmax(np.where(multiple[:, None], -np.inf, share), axis=(1, 2))
    return (
        equal(
            f"{begin}the plateaus at multiples of R, and no others, last over {CONSPICUOUS:.0%} "
            "of the time at their end in most seeds: every m for which most seeds decide, rank "
            "by rank",
            most_long[settled],
            multiple[settled],
            "plateaus as predicted",
        ).stated_in("Z section 5, E.4"),
        at_least(
            f"{begin}share of the plateaus at multiples of R that last over {CONSPICUOUS:.0%} of "
            "the time at their end, over all runs of each rank",
            (long & at_multiples).sum(axis=(1, 2)) / at_multiples.sum(axis=(1, 2)),
            _MOST,
        ),
        at_most(
            f"{begin}longest plateau at any other m, as a share of the time at its end, for each "
            "rank above one",
            between[data["rank"].to_numpy() > 1],
            CONSPICUOUS,
        ),
    )


def rank_mistakes(setting: Setting) -> tuple[Mistake, ...]:
    """Levels of another task, and plateaus counted from another drop or of another rank."""
    return (
        *wrong_levels(setting),
        rolled("plateaus counted from the drop before", "plateau", "plateau_share"),
        rolled("plateaus of another rank", "rank", "plateau_share"),
        changed("drops in place of plateaus", "plateau_share", by=lambda share: 1 - share),
    )


def draw_rank(axes: PanelBuilder, data: xr.Dataset, letter: str) -> None:
    """The losses of one rank, all seeds, above the levels; those at multiples of R are dark."""
    rank = int(data["rank"])
    for level, loss in enumerate(data["level_loss"].to_numpy()):
        if level % rank == 0:
            axes.axhline(loss, color=THEORY_COLOUR, zorder=0, **THEORY)
            axes.text(1.01, loss, f"{level}", x_in="panel", fontsize=7.5, va="center")
        else:
            axes.axhline(loss, color="#AAAAAA", linestyle=":", linewidth=0.7, zorder=0)
    for row, seed in enumerate(data["seed"].to_numpy()):
        axes.plot(data["time"], data["loss"][row], color=colour(row), label=f"seed {seed}")
    axes.set(xscale="log", xlim=(_FIRST_SHOWN, float(data["time"][-1])), xlabel=TIME_LABEL)
    axes.set(yscale="log", ylim=(0.95 * float(data["level_loss"][-1]), 1.06))
    axes.yaxis.tick_at(_TICKS)
    axes.set_title(f"({letter})  $R={rank}$", loc="left")


def plateau_levels(time: FloatArray, loss: FloatArray, drops: FloatArray) -> list[float]:
    """The loss where it changes least between one drop and the next, NaN where none was reached."""
    slope = np.abs(np.gradient(loss, time))
    losses = []
    for begin, end in zip([0.0, *drops], [*drops, np.nan], strict=True):
        inside = (time >= begin) & ~(time > end)
        least = int(np.where(inside, slope, np.inf).argmin())
        losses.append(float(loss[least]) if inside.any() else np.nan)
    return losses


def _shares(drops: FloatArray, until: float) -> FloatArray:
    """How long each plateau lasts, as a share of the time at its end."""
    begins = np.concatenate([np.zeros((*drops.shape[:2], 1)), drops[..., :-1]], axis=-1)
    finished = np.isfinite(drops)
    shares: FloatArray = 1 - begins / np.where(finished, drops, until)
    shares[~finished & (shares < CONSPICUOUS)] = np.nan
    return shares


def _level_errors(data: xr.Dataset) -> FloatArray:
    """The largest distance of a plateau at a multiple of R, or of the end, from its level."""
    levels = data["level_loss"].to_numpy()
    steps = np.abs(np.diff(levels, prepend=levels[1]))
    errors = np.abs(data["plateau_loss"].to_numpy() - levels) / steps
    judged = is_multiple(data, "level")
    judged[:, -1] = True
    return np.nanmax(np.where(judged[:, None], errors, np.nan), axis=(1, 2))
