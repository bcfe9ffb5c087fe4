"""What the figures of separate attention share: a run's staircase beside T7 and T13, as numbers."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import xarray as xr

from saddlescope.arrays import nan_padded
from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.charts import PanelBuilder
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.comparison import compare
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.errors import InvalidInput
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within, within
from saddlescope.figures.kit.mistake import Mistake, replaced, rolled, scaled, shifted
from saddlescope.figures.kit.parts import of_kind
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import plateau_losses, predict_staircase
from saddlescope.trajectory import Trajectory

STAIRCASE = Setting(
    SeparateAttention(heads=5, rank=1),
    InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31),
    GradientFlow(until=60_000.0),
    RandomStart(0.01),
    Record(points=2000),
    seeds=6,
)
"""The runs of Figure 3, which Figure 7 and the graph of the fixed points show too."""

CONSERVED = 1e-7
"""How far a conserved quantity may drift: the worst of all flows drifts by 3e-8."""

FIXED = ("activation", "softmax_scale", "weights")
"""The fields of a setting that have one value in a figure of linear attention."""

QUICK_STAIRCASE = STAIRCASE.replace(seeds=2, until=20_000.0, points=800)
"""The same in short."""


def staircase_numbers(run: Trajectory) -> xr.Dataset:
    """Loss, levels and drops of a run beside their predictions; missing drops are NaN.

    Over (seed, time), level (0 is the start) and drop (1 is the first).
    """
    names = ["level_loss", "plateau_loss", "drop_time", "predicted_drop_time", "conserved_drift"]
    data = compare(run).to_dataset()[names].assign_coords(time=run.time)
    return data.assign(loss=(("seed", "time"), run.loss))


def initial_scale(setting: Setting) -> float:
    """The scale of a setting's random start."""
    scale = getattr(setting.init, "init_scale", None)
    if not isinstance(scale, float):
        raise InvalidInput("init", setting.init, "must be a start that has a scale")
    return scale


def on_logarithmic_grid(setting: Setting, first_share: float, points: int) -> Setting:
    """The setting recorded at logarithmic times from this share of the run on.

    A logarithmic grid resolves drops at very different times.
    """
    end = setting.method.end
    return setting.replace(at=np.geomspace(first_share * end, end, points))


def predicted_drop_times(setting: Setting, seed: int) -> FloatArray:
    """The drop times of a seed by T13, NaN where none comes by the end, [D]."""
    model, task = setting.model, setting.task
    weights = setting.init.weights(model, task, seed)
    drops = predict_staircase(model, task, weights, until=setting.method.end).drops
    return nan_padded([[drop.time for drop in drops]], task.dimension)[0]


def padded_loss(run: Trajectory, time: FloatArray) -> FloatArray:
    """Each seed's loss at all of these times; a run whose seeds have all converged ends early."""
    return np.pad(run.loss, ((0, 0), (0, len(time) - len(run.time))), mode="edge")


def learned_share(run: Trajectory, amplitude: FloatArray, basis: FloatArray) -> xr.DataArray:
    """What each seed has learned of each eigenvector, 1 at the optimum: (seed, time, direction)."""
    maps = run.dataset["effective_map"].to_numpy()
    along = np.einsum("ad,stab,bd->std", basis, maps, basis) / amplitude
    directions = np.arange(basis.shape[1])
    return xr.DataArray(along, dims=("seed", "time", "direction"), coords={"direction": directions})


def timing_claims(data: xr.Dataset, tolerance: float) -> tuple[Claim, ...]:
    """Drops come when T13 predicts, if at all; conserved quantities stay constant (T14)."""
    name = "drops come at the times predicted from the initial weights alone (T13)"
    return (timing_claim(name, data, tolerance), missing_claim(data), conserved_claim(data, "Z 79"))


def conserved_claim(data: xr.Dataset, source: str = "") -> Claim:
    """Conserved quantities drift by no more than the solver's own error."""
    name = "conserved quantities stay constant (T14): largest drift"
    return at_most(name, data["conserved_drift"], CONSERVED).stated_in(source)


def timing_claim(name: str, data: xr.Dataset, tolerance: float) -> Claim:
    """The drops that come do so at the times predicted from the initial weights alone (T13)."""
    measured, predicted = data["drop_time"].to_numpy(), data["predicted_drop_time"].to_numpy()
    seen = np.isfinite(measured)
    return relatively_within(name, measured[seen], predicted[seen], tolerance)


def missing_claim(data: xr.Dataset) -> Claim:
    """The drops that do not come are those that T13 predicts not to come."""
    return equal(
        "the drops that do not come by the end of the run are those predicted not to (T13)",
        np.isfinite(data["drop_time"]),
        np.isfinite(data["predicted_drop_time"]),
        "drops come, or do not, as predicted",
    )


def level_claim(name: str, data: xr.Dataset, reached: AnyArray, tolerance: float) -> Claim:
    """The plateaus `reached[case, seed, drop]`, each after a drop, lie at their case's levels."""
    predicted = np.broadcast_to(data["level_loss"].to_numpy()[:, None, 1:], reached.shape)
    measured = data["plateau_loss"].to_numpy()[:, :, 1:]
    return within(name, measured[reached], predicted[reached], tolerance)


def wrong_levels(setting: Setting) -> tuple[Mistake, ...]:
    """Levels of another context length or spectrum, and a loss with a factor one half."""
    task = of_kind(InContextRegression, setting.task)
    length, values = task.context_length.longest, task.spectrum.eigenvalues
    moved = values + 0.1 * values.min() * np.where(values > np.median(values), 1, -1)
    others = {
        f"levels of N = {length - 1}": setting.replace(context_length=length - 1),
        f"levels of N = {length + 1}": setting.replace(context_length=length + 1),
        "levels of another spectrum": setting.replace(spectrum=moved),
    }
    return (
        *(
            replaced(name, {"level_loss": plateau_losses(other.task, model=other.model)})
            for name, other in others.items()
        ),
        scaled("a loss with a factor one half", 0.5, "plateau_loss", "loss"),
    )


def wrong_times(late: float) -> tuple[Mistake, ...]:
    """Drops measured late or in another unit, and predicted of another start."""
    return (
        scaled(f"drops late by {late:g} of their time", 1 + late, "drop_time"),
        scaled("steps of rate .02 in place of flow time", 1 / 0.04, "drop_time"),
        scaled("predictions of a start twice as large", 0.5, "predicted_drop_time"),
        rolled("predictions of other seeds", "seed", "predicted_drop_time"),
        shifted("a conserved quantity with a wrong sign", 0.1, "conserved_drift"),
    )


def plateau_record(time: FloatArray, drop_times: FloatArray, drop: SupportsIndex) -> int:
    """The record in the middle of the plateau that follows the n-th drop (0 is the start)."""
    following = int(drop)
    begin = time[0] if following == 0 else drop_times[following - 1]
    end = drop_times[following] if following < len(drop_times) else np.nan
    if not np.isfinite(end):
        return len(time) - 1
    return int(np.searchsorted(time, (begin + end) / 2))


def clearest_seed(drops: FloatArray) -> int:
    """Of the seeds with the most drops, the one whose `drops[seed, drop]` lie furthest apart."""
    count = np.isfinite(drops).sum(axis=1)
    gaps = np.nanmin(np.diff(np.log(drops), axis=1), axis=1, initial=np.inf)
    return int(np.where(count == count.max(), gaps, -np.inf).argmax())


def winning_heads(data: xr.Dataset) -> FloatArray:
    """The head whose value grows most at each drop, over (seed, drop); NaN where there is none.

    `data` holds `time`, `drop_time` and `value[seed, time, head]`.
    """
    time, drops = data["time"].to_numpy(), data["drop_time"].to_numpy()
    size = np.abs(data["value"].to_numpy())
    heads = np.full(drops.shape, np.nan)
    for seed, drop in np.argwhere(np.isfinite(drops)):
        before, after = (plateau_record(time, drops[seed], n) for n in (drop, drop + 1))
        heads[seed, drop] = np.argmax(size[seed, after] - size[seed, before])
    return heads


def midway(levels: FloatArray) -> FloatArray:
    """The losses at which drops between levels are timed, midway between them."""
    return (levels[:-1] + levels[1:]) / 2


def draw_staircases(axes: PanelBuilder, data: xr.Dataset, **circles: Any) -> None:
    """The loss of every seed, the levels (T7), and circles where drops are predicted (T13)."""
    levels = data["level_loss"].to_numpy()
    panels.levels(axes, levels, "levels (T7)")
    panels.seed_curves(axes, data["time"], data["loss"], "training")
    for index, times in enumerate(data["predicted_drop_time"]):
        look = {"color": panels.colour(index), **panels.CIRCLES, **circles}
        axes.plot(times, midway(levels), label=None if index else "drops (T13)", **look)
