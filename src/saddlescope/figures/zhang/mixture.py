"""What the figures of pooled tasks share: the in-weight mixture beside its one head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart
from saddlescope.charts import PanelBuilder
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.claim import Claim, within
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled
from saddlescope.figures.kit.panels import LOSS_LABEL, THEORY, colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.merged_run import MERGED
from saddlescope.figures.zhang.staircase import FIXED
from saddlescope.measure import first_crossing, first_record
from saddlescope.setting import Setting
from saddlescope.task import AbstractData, TaskPool
from saddlescope.theory import (
    block_loss,
    block_optimum,
    drive_matrix,
    minimum,
    one_head,
    plateau_losses,
)
from saddlescope.theory.parametrisation import population_law

MIXTURE = MERGED.replace(
    task=TaskPool([0.25] * 4, context_length=31, tasks=1),
    blocks="full",
    until=500.0,
    init_scale=2e-5,
    points=600,
    seeds=3,
)
r"""The runs of Figure 5, and for longer of Figure 10: $\Lambda = I/D$ and one task vector w*."""

VARIED = (*FIXED, "share", "labels")
"""The fields that these figures vary themselves."""

LOSSES = {"training": "loss", "in_weight": "loss_in_weight", "in_context": "loss_in_context"}
"""The three losses of a mixture, and their names in a run."""

# Measured curves are wide enough to be seen under the predicted ones.
UNDER_THEORY: dict[str, Any] = {"linewidth": 2.2}

# Between these depths below the zero function's loss a descent is still exponential: above the
# first the head has found its direction, below the second it does not yet feel its own map.
_EXPONENTIAL = (1e-7, 1e-3)


def with_share(setting: Setting, share: float) -> Setting:
    """The mixture in which a share of the prompts has the one task vector w*.

    At share 1 the context labels are random, as in the authors' code, so that only memory helps.
    """
    return setting.replace(share=share, labels="random" if share == 1 else "consistent")


def mixture_curves(watch: Watch, setting: Setting, shares: Sequence[float]) -> xr.Dataset:
    """The three losses of each share, trained and by the one head, over (share, seed, time).

    With them: the optimum's losses, the drive's rate and what the conserved quantities drift; the
    loss of predicting zero, and of the map that learns in context alone, on fresh tasks and on
    random labels (`level_loss`, `random_label_loss`).
    """
    parts = []
    for share in watch.each(shares):
        one = with_share(setting, share)
        task = population_law(one.task)
        statistics = task.block_statistics()
        run = watch.train(f"share-{share:g}", one)
        start = GivenStart(one_head(statistics, run.weights(index=0)), one.seeds)
        alone = watch.train(f"one-head-{share:g}", one.replace(init=start))
        best = block_optimum(statistics)
        tests = {
            name: population_law(test).block_statistics() for name, test in task.tests().items()
        }
        balance = run.dataset["value_balance"]
        drift = abs(balance - balance.isel(time=0)).max(("time", "head", "other_head"))
        numbers: dict[str, Any] = {
            "drive_rate": np.linalg.norm(drive_matrix(statistics), 2),
            "conserved_drift": ("seed", drift.to_numpy()),
        }
        for name, law in {"training": statistics, **tests}.items():
            numbers |= {
                name: (("seed", "time"), run.dataset[LOSSES[name]].to_numpy()),
                f"one_head_{name}": (("seed", "time"), alone.dataset[LOSSES[name]].to_numpy()),
                f"best_{name}": block_loss(law, best.coefficients),
            }
        parts.append(xr.Dataset(numbers, {"seed": list(one.seeds), "time": run.time}))
    data = xr.concat(parts, xr.Variable("share", list(shares)), data_vars="all")
    return data.assign(_pure_losses(with_share(setting, 0.0).task))


def anchor_claims(data: xr.Dataset) -> tuple[Claim, ...]:
    """Losses known without the statistics of all blocks: at the start, and at ρ = 0."""
    zero, least = data["level_loss"].to_numpy()
    first = np.stack([data[name].isel(time=0) for name in LOSSES])
    pure = data.isel(share=data["share"].to_numpy() == 0, time=-1)
    known = {"training": least, "in_context": least, "in_weight": float(data["random_label_loss"])}
    return (
        within(
            "training, in-weight and in-context loss all begin at that of predicting zero, tr Λ",
            first,
            np.full(first.shape, zero),
            1e-9,
        ),
        within(
            "at ρ = 0, training and in-context loss end at the last level (T7), the in-weight "
            "loss at tr Λ + tr(WᵀΛWΛ)/N",
            [pure[name].to_numpy().ravel() for name in known],
            [np.full(pure["training"].size, value) for value in known.values()],
            1e-9,
        ),
    )


def mixture_mistakes() -> tuple[Mistake, ...]:
    """Errors that training and the one head would share, and others that they would not."""

    def both(*names: str) -> list[str]:
        return [prefix + name for name in names for prefix in ("", "one_head_", "best_")]

    def without_share(data: xr.Dataset) -> xr.Dataset:
        return data.assign(
            {f"{kind}training": data[f"{kind}in_context"].variable for kind in ("", "one_head_")}
        )

    def exchanged(data: xr.Dataset) -> xr.Dataset:
        pairs = [*zip(both("in_weight"), both("in_context"), strict=True)]
        pairs.append(("in_weight_time", "in_context_time"))
        swaps = {one: data[other].variable for one, other in pairs}
        return data.assign(swaps | {other: data[one].variable for one, other in pairs})

    return (
        scaled("the in-weight loss half as large again", 1.5, *both("in_weight")),
        scaled("training with a factor one half", 0.5, *both("training")),
        Mistake("a training loss that ignores the share", without_share),
        Mistake("the two tests exchanged", exchanged),
        rolled("the curves of another share", "share", *both(*LOSSES)),
        changed("the shares counted from the other end", "training", by=lambda one: one[::-1]),
        scaled("the last level of another context length", [1, 0.99], "level_loss"),
    )


def _pure_losses(task: AbstractData) -> dict[str, Any]:
    r"""Of the pure task: its first and last level, and $\mathrm{tr}\,\Lambda +
    \mathrm{tr}(W_*^\top\Lambda W_*\Lambda)/N$, the loss of its minimum on random labels."""
    levels, best = plateau_losses(task)[[0, -1]], minimum(task).effective_map
    covariance = population_law(task).moments().query
    spread = np.trace(best.T @ covariance @ best @ covariance) / (task.fixed_length or np.nan)
    return {"level_loss": ("level", levels), "random_label_loss": levels[0] + spread}


def half_fall_times(data: xr.Dataset, name: str) -> FloatArray:
    """When each loss `(share, seed, time)` is first half-way from its start to its least value."""
    rows = data[name].to_numpy()
    start, least = rows[..., 0], rows.min(axis=-1)
    falls = least < start * (1 - _EXPONENTIAL[1])
    middle = np.where(falls, (start + least) / 2, np.nan)
    return first_crossing(rows, middle, data["time"].to_numpy())


def first_rates(data: xr.Dataset) -> FloatArray:
    """The growth rate of the weights while the training loss is still near its start."""
    depth = float(data["training"].max()) - data["training"].to_numpy()
    time = data["time"].to_numpy()
    # A run that starts beyond the first depth is followed from its start.
    borders = [np.maximum(first_record(depth, at, rising=True), 0) for at in _EXPONENTIAL]
    rates = np.full(depth.shape[:2], np.nan)
    for index in np.ndindex(rates.shape):
        begin, end = (int(record[index]) for record in borders)
        if end - begin > 1:
            # The loss falls as the square of the weights.
            slope = np.polyfit(time[begin:end], np.log(depth[index][begin:end]), 1)[0]
            rates[index] = slope / 2
    return rates


def draw_three_losses(axes: PanelBuilder, one: xr.Dataset) -> None:
    """The losses of one share and seed over time, with those of the one head dashed."""
    texts = {"training": "training", "in_weight": "in-weight test", "in_context": "in-context test"}
    for index, (name, text) in enumerate(texts.items()):
        axes.plot(one["time"], one[name], color=colour(index), label=text, **UNDER_THEORY)
        axes.plot(one["time"], one[f"one_head_{name}"], color="black", **THEORY)
    axes.plot([], [], color="black", label="one head (T10)", **THEORY)
    axes.set(ylabel=LOSS_LABEL)
