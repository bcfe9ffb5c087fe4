"""What the figures of attention-only decoders share: numbers, claims, and a sheet by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saddlescope.figures.claim import Claim, at_least, at_most, equal
from saddlescope.figures.panels import THEORY_COLOUR, colour, sheet
from saddlescope.transformer import emergence

MEASURES = (
    "in_context_score",
    "loss",
    "ov_distance",
    "ov_marginal_rank",
    "prefix_matching",
    "qk_distance",
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
}
# Around an emergence: from its step divided by this to its step times this.
_AROUND = 1.5
# Early: within this share of the training.
_EARLY = 1 / 3


def induction_numbers(run: xr.Dataset) -> xr.Dataset:
    """The measures of a run, when in-context learning emerged, and what the QK rank did then.

    - `qk_fall` (layers, seed): by how much the QK rank, averaged over the heads of the layer where
      it falls most, falls within a factor 1.5 of the emergence; where nothing emerges, by how much
      it falls at most within any stretch of steps as wide.
    - `qk_return`: the share of that fall which it regains by the end.
    - `qk_half_time`, `ov_half_time`: the share of the training after which the distance to the end,
      averaged over heads, stays below half of what it was at first.
    """
    data = run[list(MEASURES)].copy()
    data["emergence"] = emergence(run)
    falls = [
        [_fall(data.sel(layers=depth, seed=seed)) for seed in data["seed"]]
        for depth in data["layers"]
    ]
    data["qk_fall"] = (("layers", "seed"), np.array(falls)[:, :, 0])
    data["qk_return"] = (("layers", "seed"), np.array(falls)[:, :, 1])
    for name in ("qk", "ov"):
        data[f"{name}_half_time"] = _half_time(data[f"{name}_distance"].mean(("layer", "head")))
    return data


def emergence_claims(data: xr.Dataset) -> tuple[Claim, ...]:
    """In-context learning emerges with two layers and more, not with one."""
    share = np.isfinite(data["emergence"]).mean("seed")
    deep = data["layers"].to_numpy() > 1
    return (
        equal(
            "share of the seeds in which in-context learning emerges, by depth: none with one "
            "layer, all with more",
            share,
            deep,
        ),
    )


def rank_claims(data: xr.Dataset) -> tuple[Claim, ...]:
    """The QK rank dips around the emergence."""
    deep = data.sel(layers=data["layers"] > 1)
    shallow = float(data["qk_fall"].sel(layers=1).median("seed"))
    return (
        at_least(
            "the QK rank falls around the emergence by more than it does with one layer in as "
            "long a stretch: ratio of the falls, median of the seeds, by depth",
            deep["qk_fall"].median("seed") / shallow,
            1.0,
        ),
        at_least(
            "it dips: the share of that fall which is regained by the end, by depth",
            deep["qk_return"].median("seed"),
            0.5,
        ),
    )


def distance_claims(data: xr.Dataset) -> tuple[Claim, ...]:
    """Subspace distances fall early."""
    return tuple(
        at_most(
            f"the {name.upper()} subspace distance is halved within a third of the training: share "
            "of it, median of the seeds, by depth",
            data[f"{name}_half_time"].median("seed"),
            _EARLY,
        )
        for name in ("qk", "ov")
    )


def draw_induction(data: xr.Dataset, rows: Sequence[str]) -> Figure:
    """A row for each measure, a column for each depth, one time axis; emergence is marked."""
    depths = data["layers"].to_numpy()
    drawing, axes = sheet(len(rows), len(depths), width=2.3, height=1.6, sharex=True, sharey="row")
    for column, depth in enumerate(depths):
        one = data.sel(layers=depth)
        for row, name in enumerate(rows):
            panel = axes[row, column]
            _draw_measure(panel, one[name])
            for step in np.atleast_1d(one["emergence"]):
                if np.isfinite(step):
                    panel.axvline(float(step), color=THEORY_COLOUR, linewidth=0.9, linestyle=":")
            if column == 0:
                panel.set_ylabel(LABELS[name])
        axes[0, column].set_title(f"{depth} layer{'s' if depth > 1 else ''}", loc="left")
        axes[-1, column].set_xlabel("step")
    _explain(drawing, axes[0, 0], data.sizes["layer"])
    return drawing


def _draw_measure(panel: Axes, measure: xr.DataArray) -> None:
    """One curve a layer, the mean of its heads, median and range of the seeds; heads thin."""
    step = measure["step"].to_numpy()
    if "head" not in measure.dims:
        _draw_seeds(panel, step, measure, colour(0), "all layers")
        return
    for layer in range(measure.sizes["layer"]):
        of_layer = measure.isel(layer=layer)
        if not np.isfinite(of_layer).any():
            continue
        for head in range(measure.sizes["head"]):
            panel.plot(
                step,
                of_layer.isel(seed=0, head=head),
                color=colour(layer + 1),
                linewidth=0.5,
                alpha=0.5,
            )
        _draw_seeds(panel, step, of_layer.mean("head"), colour(layer + 1), f"layer {layer + 1}")


def _draw_seeds(panel: Axes, step: Any, curves: xr.DataArray, tint: str, label: str) -> None:
    middle = curves.median("seed")
    panel.plot(step, middle, color=tint, label=label)
    if curves.sizes["seed"] > 1:
        low, high = curves.min("seed"), curves.max("seed")
        panel.fill_between(step, low, high, color=tint, alpha=0.25, linewidth=0)


def _explain(drawing: Figure, panel: Axes, layers: int) -> None:
    """One legend for the whole sheet, above it."""
    handles = [panel.plot([], [], color=colour(0), label="all layers")[0]]
    for layer in range(layers):
        name = f"layer {layer + 1}, its heads thin"
        handles += panel.plot([], [], color=colour(layer + 1), label=name)
    handles += panel.plot([], [], color=THEORY_COLOUR, linestyle=":", label="emergence")
    drawing.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=7.5)


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


def _half_time(distance: xr.DataArray) -> xr.DataArray:
    """The share of the steps after which a curve stays below half of its first value."""
    above = distance >= distance.isel(step=0) / 2
    last = distance["step"].where(above).max("step")
    return last / float(distance["step"][-1])
