"""The page of a sweep: one offline file with everything that was kept, its axes as sliders."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.errors import InvalidInput
from saddlescope.report import Section, write_page
from saddlescope.sweep._labelled import shown_in_pictures
from saddlescope.sweep.plan import POINT, SEED
from saddlescope.sweep.subjects import Status

# More numbers than this would keep a browser waiting.
_MOST_NUMBERS = 2_000_000
_STYLE = """
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1.4rem; align-items: end; margin: 1rem 0; }
.controls label { display: grid; gap: .15rem; font-size: .85rem; color: var(--faint); }
.controls select { font: inherit; color: var(--ink); background: var(--paper);
                   border: 1px solid var(--line); border-radius: 4px; padding: .2rem .4rem; }
.controls output { color: var(--ink); font-variant-numeric: tabular-nums; }
.controls input[type=range] { width: 11rem; accent-color: var(--accent); }
#chart { width: 100%; aspect-ratio: 2; display: block; touch-action: none; }
#readout { min-height: 1.6em; color: var(--faint); font-variant-numeric: tabular-nums; }
"""


def write_sweep_page(array: xr.Dataset, path: str | Path) -> Path:
    """Write the page of a sweep's labelled array, with the mean and the range over seeds.

    Points that diverged or failed are left out.

    >>> import tempfile
    >>> values = xr.DataArray(np.ones((2, 3)), {"heads": [1, 2], "init_scale": [.1, .2, .3]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sweep_page(values.to_dataset(name="drops"), Path(folder) / "page.html").name
    'page.html'
    """
    status = _failures(array)
    array = shown_in_pictures(array)
    shown = {str(name): values for name, values in array.items()}
    numbers = sum(values.size for values in shown.values())
    if numbers > _MOST_NUMBERS:
        raise InvalidInput(
            "store", f"{numbers} numbers", f"a page holds {_MOST_NUMBERS}: keep less, or plot"
        )
    # Where every quantity has another axis, seeds are averaged over.
    averaged = SEED if all({*one.dims} > {SEED} for one in shown.values()) else None
    used = {axis for one in shown.values() for axis in one.dims} - {averaged}
    data = {
        "axes": {str(name): _labels(array, str(name)) for name in array.dims if name in used},
        "kept": {name: _described(values, averaged) for name, values in shown.items()},
        "seeds": array.sizes[SEED] if averaged else 1,
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    body = (
        '<div class="controls" id="choices"></div><div class="controls" id="sliders"></div>'
        '<canvas id="chart" role="img" aria-label="the sweep as a chart"></canvas>'
        '<output id="readout"></output>'
        f'<script type="application/json" id="data">{text}</script>'
    )
    script = resources.files("saddlescope.sweep") / "assets" / "page.js"
    sizes = " × ".join(f"{array.sizes[name]} {name}" for name in array.dims)
    plan = array.attrs.get("plan")
    sections = [Section("Results", body)]
    if plan:
        sections.append(Section("The plan", f"<pre>{escape(_pretty(plan))}</pre>"))
    return write_page(
        path,
        "Saddlescope: a sweep",
        f"{sizes}{status}",
        sections,
        style=_STYLE,
        script=script.read_text(encoding="utf-8"),
    )


def _described(values: xr.DataArray, averaged: str | None) -> dict[str, object]:
    """Its axes, and its values flat: the mean and the range over the averaged axis, if any."""
    axes = [str(name) for name in values.dims if name != averaged]
    if averaged is None:
        return {"axes": axes, "mean": _plain(values.to_numpy())}
    numbers = values.transpose(*axes, averaged).to_numpy()
    with np.errstate(all="ignore"):
        sound = np.isfinite(numbers)
        count = sound.sum(-1)
        mean = np.where(
            count > 0, np.where(sound, numbers, 0).sum(-1) / np.maximum(count, 1), np.nan
        )
    low = np.where(count > 0, np.where(sound, numbers, np.inf).min(-1), np.nan)
    high = np.where(count > 0, np.where(sound, numbers, -np.inf).max(-1), np.nan)
    return {"axes": axes, "mean": _plain(mean), "low": _plain(low), "high": _plain(high)}


def _plain(values: AnyArray) -> list[float | None]:
    """Rounded to six digits; None where not finite."""
    flat = values.ravel().tolist()
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in flat]


def _labels(array: xr.Dataset, name: str) -> list[object]:
    fields = [str(one) for one in array.coords if array[one].dims == (POINT,) and one != POINT]
    if name == POINT and fields:
        # A point goes by the fields that it has values of.
        columns = [[f"{field}={_short(one)}" for one in array[field].values] for field in fields]
        return [", ".join(values) for values in zip(*columns, strict=True)]
    labels = array[name].to_numpy() if name in array.coords else np.arange(array.sizes[name])
    return [float(f"{one:.6g}") if isinstance(one, float) else one for one in labels.tolist()]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _failures(array: xr.Dataset) -> str:
    if "status" not in array:
        return ""
    status = array["status"].to_numpy()
    failed, missing = int((status >= Status.DIVERGED).sum()), int((status == 0).sum())
    said = [
        f"{failed} failed or diverged" if failed else "",
        f"{missing} missing" if missing else "",
    ]
    return "".join(f"; {text}" for text in said if text)


def _pretty(plan: object) -> str:
    try:
        return json.dumps(json.loads(str(plan)), indent=2)
    except ValueError:
        return str(plan)
