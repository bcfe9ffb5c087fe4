"""The page of observed runs: loss, heads and spectra on one time axis, one run or two."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.observe.summary import Summary, summarise
from saddlescope.report._assets import asset, embedded
from saddlescope.report._page import Section, table, write_page
from saddlescope.report._thinning import thin_curve
from saddlescope.tables import paragraphs

_TITLE = "Saddlescope: the heads of a training run"
_LEAD = (
    "The loss with its stages, every attention head during training, and the spectra of the chosen "
    "head. The slider and all charts share one time axis."
)
_SCRIPTS = ("uPlot.iife.min.js", "scales.js", "observation.js")
_LOSS_POINTS = 4000
# A number of values: more would make the page slow to open.
_LARGEST_SPECTRA = 1_500_000
_CIRCUITS = ("qk", "ov")


def write_observation_page(runs: Mapping[str, xr.Dataset], path: str | Path) -> Path:
    """Write the page of observations that `observe.load` returns, by name; two are side by side."""
    described = {name: summarise(dataset) for name, dataset in runs.items()}
    data = [_plain(name, runs[name], described[name]) for name in runs]
    body = (
        '<div id="observation"><noscript><p>The charts need JavaScript; the tables below do not.'
        "</p></noscript></div>" + embedded("observation-data", data)
    )
    sections = [Section("During training", body)]
    for name, summary in described.items():
        suffix = f": {name}" if len(runs) > 1 else ""
        sections += _tables(summary, suffix)
        sections += _remarks(runs[name], suffix)
    return write_page(
        path,
        _TITLE,
        _LEAD,
        sections,
        style=asset("uPlot.min.css") + asset("observation.css"),
        script="\n".join(map(asset, _SCRIPTS)),
    )


def _tables(summary: Summary, suffix: str) -> list[Section]:
    sections = []
    if summary.stages is not None:
        body = f'<div class="scroll">{summary.stages._repr_html_()}</div>'
        sections.append(Section("Stages of the loss" + suffix, body))
    if summary.changes:
        rows = [
            (
                f"{one.layer}.{one.head}",
                one.measure,
                f"{one.first:.3g}",
                f"{one.last:.3g}",
                f"{one.after_step} and {one.by_step}",
            )
            for one in summary.changes
        ]
        headings = ["head", "measure", "first", "last", "most between steps"]
        sections.append(Section("Heads that changed most" + suffix, table(headings, rows)))
    return sections


def _remarks(dataset: xr.Dataset, suffix: str) -> list[Section]:
    sections = []
    if dataset.attrs["notes"]:
        body = paragraphs(f"{note[:1].upper()}{note[1:]}." for note in dataset.attrs["notes"])
        sections.append(Section("Notes" + suffix, body))
    if dataset.attrs["problems"]:
        lines = "\n".join(dataset.attrs["problems"][:100])
        sections.append(Section("Not measured" + suffix, f"<pre>{escape(lines)}</pre>"))
    return sections


def _plain(name: str, dataset: xr.Dataset, summary: Summary) -> dict[str, object]:
    """A run for the page's script: numbers in base64, float32, by step, layer and head."""
    measures = {
        str(key): _encoded(array.transpose("step", "layer", "head").values)
        for key, array in dataset.data_vars.items()
        if set(array.dims) == {"step", "layer", "head"}
    }
    scalars = {
        str(key): _encoded(array.values)
        for key, array in dataset.data_vars.items()
        if array.dims == ("step",)
    }
    loss_steps, losses = _thinned(dataset)
    found = summary.stages
    return {
        "name": name,
        "steps": dataset["step"].values.tolist(),
        "layers": dataset["layer_name"].values.tolist(),
        "heads": dataset.sizes["head"],
        "loss": {"steps": loss_steps.tolist(), "values": losses.tolist()},
        "stages": {"plateaus": [], "drops": []} if found is None else found.to_dict(),
        "measures": measures,
        "scalars": scalars,
        "spectra": {
            circuit: _spectra(dataset[f"{circuit}_spectrum"])
            for circuit in _CIRCUITS
            if f"{circuit}_spectrum" in dataset
        },
    }


def _thinned(dataset: xr.Dataset) -> tuple[AnyArray, AnyArray]:
    losses = dataset["loss"].dropna("loss_step")
    steps, values = losses["loss_step"].values.astype(float), losses.values
    if len(values) <= _LOSS_POINTS:
        return steps, values
    across = (steps - steps[0]) / (steps[-1] - steps[0])
    up = (values - values.min()) / max(float(np.ptp(values)), np.finfo(float).tiny)
    kept = thin_curve(across, up, _LOSS_POINTS)
    return steps[kept], values[kept]


def _spectra(array: xr.DataArray) -> dict[str, object]:
    """The spectra at some of the steps: all of them where they are few enough."""
    values = array.transpose("step", "layer", "head", "index").values
    most = max(int(_LARGEST_SPECTRA / 2 / max(values[0].size, 1)), 2)
    count = len(values)
    places = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    return {
        "places": places.tolist(),
        "size": int(values.shape[-1]),
        "values": _encoded(values[places]),
    }


def _encoded(values: AnyArray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")
