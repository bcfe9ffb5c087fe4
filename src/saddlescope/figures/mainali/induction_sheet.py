"""What the figures of attention-only decoders share: their numbers, and a sheet by depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet, SheetBuilder
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import (
    THEORY_COLOUR,
    colour,
    entry,
    head_curves,
    seed_band,
    sheet,
)
from saddlescope.figures.kit.watch import Watch
from saddlescope.transformer import InductionExperiment, emergence

MEASURES = (
    "in_context_score",
    "loss",
    "ov_distance",
    "ov_drift",
    "ov_marginal_rank",
    "prefix_matching",
    "qk_distance",
    "qk_drift",
    "qk_marginal_rank",
)
LABELS = {
    "loss": "loss  (nats a token)",
    "in_context_score": "in-context score  (nats)",
    "prefix_matching": "prefix matching",
    "qk_marginal_rank": "QK marginalised\neffective rank",
    "ov_marginal_rank": "OV marginalised\neffective rank",
    "qk_distance": "QK distance\nto the end",
    "ov_distance": "OV distance\nto the end",
    "distance": "QK and OV distance\nto the end",
    "drift": "QK and OV drift\nbetween records",
}

_DEFAULT = InductionExperiment()
# Around an emergence: from its step divided by this to its step times this.
_AROUND = 1.5


@dataclass(frozen=True)
class AbstractInductionFigure(AbstractFigure):
    """A figure of one induction experiment; subclasses say what it shows and claims."""

    experiment: InductionExperiment = _DEFAULT

    rows: ClassVar[tuple[str, ...]]

    @classmethod
    def quick(cls) -> AbstractInductionFigure:
        # From other starts such a small decoder learns to induce slowly, or later.
        return cls(InductionExperiment.quick(steps=450, record=31))

    def inputs(self) -> str:
        return self.experiment.inputs()

    def compute(self, watch: Watch) -> xr.Dataset:
        return induction_numbers(watch.run(self.experiment))

    def draw(self, data: xr.Dataset) -> Sheet:
        return draw_induction(data, self.rows)


def induction_numbers(run: xr.Dataset) -> xr.Dataset:
    """The measures of a run, when in-context learning emerged, and what was measured then.

    - `emergence_by_heads`: the same, detected by a prefix-matching head.
    - `qk_fall` (layers, seed): by how much the QK rank, averaged over the heads of the layer where
      it falls most, falls within a factor 1.5 of the emergence; where nothing emerges, by how much
      it falls at most within any stretch of steps as wide.
    - `qk_return`: the share of that fall regained by the end.
    - `distance` (layers, seed, step): the subspace distance to the last step, averaged over the QK
      and the OV circuits of all heads.
    - `half_step`: the last step at which it is still above half of its initial value.
    - `distance_left`, `distance_pace`: the share of it that is left at the emergence, and how fast
      it falls around that, in units of how fast it falls on the whole; NaN where nothing emerges.
    - `drift` (layers, seed, step): the subspace distance from the record before, averaged alike;
      `drift_rise`: how many times as large it is around the emergence as in the stretches before
      and after, which are as wide in the logarithm of the step.
    """
    data = run[list(MEASURES)].assign(
        emergence=emergence(run), emergence_by_heads=emergence(run, by="heads")
    )
    falls = [
        [_fall(data.sel(layers=depth, seed=seed)) for seed in data["seed"]]
        for depth in data["layers"]
    ]
    distance, drift = (_of_both(data, name) for name in ("distance", "drift"))
    at_event = distance.where(distance["step"] == data["emergence"]).max("step")
    return data.assign(
        qk_fall=(("layers", "seed"), np.array(falls)[:, :, 0]),
        qk_return=(("layers", "seed"), np.array(falls)[:, :, 1]),
        distance=distance,
        drift=drift,
        drift_rise=_rise(drift, data["emergence"]),
        half_step=last_above_half(distance),
        distance_left=at_event / distance.isel(step=0),
        distance_pace=_pace(distance, data["emergence"]),
    )


def draw_induction(data: xr.Dataset, rows: Sequence[str]) -> Sheet:
    """A row for each measure, a column for each depth, one time axis; emergence is marked."""
    depths = data["layers"].to_numpy()
    # With few rows there is room for their labels.
    height = 1.6 if len(rows) > 2 else 2.1
    shape = len(rows), len(depths)
    drawing, axes = sheet(*shape, width=2.3, height=height, sharex=True, sharey="row")
    for column, depth in enumerate(depths):
        one = data.sel(layers=depth)
        for row, name in enumerate(rows):
            panel = axes[row, column]
            _draw_measure(panel, one[name])
            _highlight(panel, one["emergence"].to_numpy())
            if column == 0:
                panel.set(ylabel=LABELS[name])
        axes[0, column].set_title(f"{depth} layer{'s' if depth > 1 else ''}", loc="left")
        axes[-1, column].set(xlabel="step")
    by_layer = any("head" in data[name].dims for name in rows)
    _explain(drawing, data.sizes["layer"] if by_layer else 0)
    return drawing.build()


def _highlight(panel: PanelBuilder, events: FloatArray) -> None:
    """The steps of the emergence, and what lies around them."""
    for step in events[np.isfinite(events)].tolist():
        panel.axvline(step, color=THEORY_COLOUR, linewidth=0.9, linestyle=":")
    if np.isfinite(events).any():
        around = float(np.nanmin(events)) / _AROUND, float(np.nanmax(events)) * _AROUND
        panel.axvspan(*around, color=THEORY_COLOUR, alpha=0.08, linewidth=0)


def _draw_measure(panel: PanelBuilder, measure: xr.DataArray) -> None:
    """One curve a layer, the mean of its heads, median and range of the seeds; heads thin."""
    if "head" not in measure.dims:
        seed_band(panel, measure, colour(0), "all layers")
        return
    for layer in range(measure.sizes["layer"]):
        of_layer = measure.isel(layer=layer)
        if not np.isfinite(of_layer).any():
            continue
        tint = colour(layer + 1)
        head_curves(panel, of_layer.isel(seed=0), tint)
        seed_band(panel, of_layer.mean("head"), tint, f"layer {layer + 1}")


def _explain(drawing: SheetBuilder, layers: int) -> None:
    """One legend for the whole sheet, above it."""
    entries = [entry("all layers", color=colour(0))]
    for layer in range(layers):
        name = f"layer {layer + 1} (thin: its heads)"
        entries.append(entry(name, color=colour(layer + 1)))
    entries.append(entry("emergence", color=THEORY_COLOUR, linestyle=":"))
    drawing.legend(entries, 3)


def _fall(one: xr.Dataset) -> tuple[float, float]:
    """The fall of the QK rank around the emergence, and the share of it that comes back."""
    step = one["step"].to_numpy()
    ranks = one["qk_marginal_rank"].mean("head").transpose("layer", "step").to_numpy()
    ranks = ranks[np.isfinite(ranks).all(axis=1)]
    event = float(one["emergence"])
    if np.isfinite(event):
        centres = [event]
    else:
        centres = [centre for centre in step[1:] if centre * _AROUND <= step[-1]]
    best = (-np.inf, np.nan)
    for centre in centres:
        inside = (step >= centre / _AROUND) & (step <= centre * _AROUND)
        for rank in ranks:
            stretch = rank[inside]
            fall = float(stretch[0] - stretch.min())
            later = rank[np.flatnonzero(inside)[0] + int(stretch.argmin()) :]
            regained = float(later.max() - stretch.min()) / fall if fall > 0 else np.nan
            best = max(best, (fall, regained), key=lambda pair: pair[0])
    return best


def _of_both(data: xr.Dataset, name: str) -> xr.DataArray:
    """A measure averaged over QK and OV and over all heads."""
    qk, ov = (data[f"{circuit}_{name}"].mean(("layer", "head")) for circuit in ("qk", "ov"))
    return (qk + ov) / 2


def _rise(drift: xr.DataArray, event: xr.DataArray) -> xr.DataArray:
    """The mean drift around an event over that in the stretches beside; NaN where there is none."""
    apart = np.log(drift["step"].clip(min=1) / event) / np.log(_AROUND)
    before, around, after = (
        drift.where(np.abs(apart - middle) <= 1).mean("step") for middle in (-2, 0, 2)
    )
    return around / ((before + after) / 2)


def last_above_half(distance: xr.DataArray) -> xr.DataArray:
    """The last step at which a curve is not yet below half of its first value."""
    return distance["step"].where(distance >= distance.isel(step=0) / 2).max("step")


def _pace(distance: xr.DataArray, event: xr.DataArray) -> xr.DataArray:
    """The fall of a curve a step around an event, over its fall a step from first to last."""
    step = distance["step"]
    inside = distance.where((step >= event / _AROUND) & (step <= event * _AROUND))
    first, last = step.where(inside.notnull()).min("step"), step.where(inside.notnull()).max("step")
    fall = distance.where(step == first).max("step") - distance.where(step == last).max("step")
    whole = (distance.isel(step=0) - distance.isel(step=-1)) / float(step[-1] - step[0])
    return fall / (last - first) / whole
