"""Metrics of an experiment on disk: one small netCDF file, in single precision."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.errors import CannotRead


def save_metrics(dataset: xr.Dataset, path: str | Path) -> None:
    """Write a dataset, whole or not at all."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    narrow = dataset.map(
        lambda array: array.astype(np.float32) if array.dtype.kind == "f" else array
    )
    narrow.assign_attrs(dataset.attrs).to_netcdf(unfinished, engine="scipy")
    os.replace(unfinished, target)


def load_metrics(path: str | Path, setting: str | None = None) -> xr.Dataset:
    """Read a dataset back, in double precision; with a setting, only if it was made with that."""
    try:
        narrow = xr.load_dataset(path, engine="scipy")
    except FileNotFoundError:
        raise CannotRead(f"{str(path)!r}: there is no such file") from None
    except Exception:
        # A damaged file raises whatever its damage makes the reader run into.
        raise CannotRead(f"{str(path)!r}: is damaged; remove it to start anew") from None
    if setting is not None and narrow.attrs.get("setting") != setting:
        if '"format"' not in str(narrow.attrs.get("setting")):
            raise CannotRead(f"{str(path)!r}: is of an older format; remove it to start anew")
        raise CannotRead(
            f"{str(path)!r}: belongs to another experiment; remove it or name another folder"
        )
    wide = narrow.map(lambda array: array.astype(np.float64) if array.dtype.kind == "f" else array)
    return wide.assign_attrs(narrow.attrs)
