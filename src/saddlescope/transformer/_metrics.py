"""Metrics of an experiment on disk: netCDF, in single precision."""

from __future__ import annotations

import io
from pathlib import Path

import xarray as xr

from saddlescope.errors import CannotRead
from saddlescope.running.files import MANIFEST, Sealed, as_path, make_folder, write_bytes
from saddlescope.setting.plain import digest

_KIND = "metrics"
_NAME = "metrics.nc"


def to_bytes(dataset: xr.Dataset) -> bytes:
    """A dataset as netCDF, in single precision."""
    return bytes(_cast(dataset, "float32").to_netcdf(engine="scipy"))


def from_bytes(content: bytes) -> xr.Dataset:
    """The dataset that was written, in double precision."""
    return _cast(xr.load_dataset(io.BytesIO(content), engine="scipy"), "float64")


def save_metrics(dataset: xr.Dataset, path: str | Path) -> None:
    """Keep metrics in a folder, with the name of their origin.

    >>> import tempfile, xarray
    >>> from saddlescope.transformer import load_metrics, save_metrics
    >>> made_from = {"setting": "one", "inputs": "a text", "data": "another"}
    >>> folder = tempfile.mkdtemp()
    >>> save_metrics(xarray.Dataset({"loss": ("step", [2., 1.])}, attrs=made_from), folder)
    >>> load_metrics(folder).attrs["inputs"]
    'a text'
    """
    folder = as_path("path", path)
    make_folder(folder)
    write_bytes(folder / _NAME, to_bytes(dataset))
    origin = name_origin(dataset.attrs.get("setting", ""), dataset.attrs.get("inputs", ""))
    Sealed(folder, _KIND, origin).write(_NAME)


def load_metrics(path: str | Path, origin: str | None = None) -> xr.Dataset:
    """The metrics kept in a folder; with an `origin`, only if that is theirs.

    >>> import tempfile, xarray
    >>> from saddlescope.transformer import load_metrics, save_metrics
    >>> made_from = {"setting": "one", "inputs": "a text", "data": "another"}
    >>> folder = tempfile.mkdtemp()
    >>> save_metrics(xarray.Dataset({"loss": ("step", [2., 1.])}, attrs=made_from), folder)
    >>> load_metrics(folder)["loss"].values.tolist()
    [2.0, 1.0]
    """
    folder = as_path("path", path)
    sealed = Sealed.read(folder, _KIND)
    if origin is not None and sealed.digest != origin:
        raise CannotRead(
            f"path = {str(folder)!r}: belongs to another experiment, or one on another text; "
            "remove it or name another folder"
        )
    return from_bytes(sealed.content(_NAME))


def name_origin(setting: str, inputs: str) -> str:
    """Identifies the experiment that metrics come from, and the data it read."""
    return digest([setting, inputs])


def has_metrics(folder: Path) -> bool:
    """Whether a folder holds metrics."""
    return (folder / MANIFEST).exists()


def remove_metrics(folder: Path) -> None:
    """Remove the metrics in a folder."""
    if has_metrics(folder):
        Sealed.read(folder, _KIND).remove()


def _cast(dataset: xr.Dataset, dtype: str) -> xr.Dataset:
    cast = dataset.map(lambda array: array.astype(dtype) if array.dtype.kind == "f" else array)
    return cast.assign_attrs(dataset.attrs)
