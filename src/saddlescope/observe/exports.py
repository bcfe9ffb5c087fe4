"""An observation for other tools: CSV, and TensorBoard's scalars."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import xarray as xr

from saddlescope.errors import CannotWrite
from saddlescope.observe._extras import require
from saddlescope.running.files import make_folder, write_text

# Its own name has the time in it, and would stand beside what was written before.
_EVENTS = "events.out.tfevents.0.saddlescope"
_TABLES = {"heads": {"step", "layer", "head"}, "steps": {"step"}, "loss": {"loss_step"}}


def write_csv(dataset: xr.Dataset, folder: Path) -> list[Path]:
    """One table a kind of axes: `heads.csv`, `steps.csv` and `loss.csv`, where there are any."""
    make_folder(folder)
    written = []
    for name, axes in _TABLES.items():
        chosen = [one for one in dataset.data_vars if set(dataset[one].dims) == axes]
        if chosen and all(dataset.sizes[axis] for axis in axes):
            frame = dataset[chosen].reset_coords(drop=True).to_dataframe()
            write_text(folder / f"{name}.csv", frame.to_csv())
            written.append(folder / f"{name}.csv")
    return written


def write_tensorboard(dataset: xr.Dataset, folder: Path) -> Path:
    """Scalars as `qk_effective_rank/layer0.head1`, in place of those written before."""
    writers = require("tensorboardX")
    make_folder(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            with writers.SummaryWriter(beside) as writer:
                for tag, step, value in _scalars(dataset):
                    writer.add_scalar(tag, value, step)
            (written,) = Path(beside).iterdir()
            os.replace(written, folder / _EVENTS)
    except OSError as problem:
        raise CannotWrite(folder, problem) from None
    return folder


def _scalars(dataset: xr.Dataset) -> list[tuple[str, int, float]]:
    found = []
    for name, array in dataset.data_vars.items():
        if "index" in array.dims:
            continue
        axis = "loss_step" if "loss_step" in array.dims else "step"
        ordered = array.transpose(axis, ...)
        for step, part in zip(ordered[axis].values.tolist(), ordered.values, strict=True):
            if part.ndim == 0:
                cells = {str(name): float(part)}
            else:
                cells = {
                    f"{name}/layer{layer}.head{head}": float(value)
                    for layer, row in enumerate(part)
                    for head, value in enumerate(row)
                }
            found += [(tag, step, value) for tag, value in cells.items() if math.isfinite(value)]
    return found
