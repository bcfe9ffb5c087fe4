"""The rows of a store as one array over its plan's axes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead
from saddlescope.running.files import files_in
from saddlescope.sweep._arrays import wait_for_reads
from saddlescope.sweep._manifest import Manifest
from saddlescope.sweep.plan import POINT
from saddlescope.sweep.subjects import REASON, STATUS, Status

if TYPE_CHECKING:
    import xarray as xr


def labelled(path: Path, manifest: Manifest) -> xr.Dataset:
    """The rows of a store over its plan's axes; NaN where a row has not finished."""
    import xarray as xr

    names = (*(one.name for one in manifest.columns), STATUS, REASON)
    try:
        _check_files(path, (*names, *manifest.dimensions), names)
        rows = xr.open_zarr(path, consolidated=False, zarr_format=3, chunks=None).load()
    except Exception as problem:
        # Whatever a damaged file makes zarr raise.
        wait_for_reads()
        cause = " ".join(str(problem).split())
        raise CannotRead(
            f"store = {str(path)!r}: is damaged ({cause}); the same sweep command repairs it"
        ) from None
    dimensions = dict(manifest.dimensions)
    axes = {
        axis: size
        for one in manifest.columns
        for axis, size in zip(one.axes, one.sizes, strict=True)
    }
    # While a store is extended, its arrays grow before its manifest does.
    known = {"row": manifest.batches * manifest.chunk, **axes}
    rows = rows.isel({name: slice(size) for name, size in known.items()})
    indices = [_look_up(rows[name].to_numpy(), labels) for name, labels in dimensions.items()]
    done = (rows[STATUS].to_numpy() != Status.MISSING) & np.all([i >= 0 for i in indices], axis=0)
    shape = tuple(len(labels) for labels in dimensions.values())
    cells = np.ravel_multi_index([index[done] for index in indices], shape)
    variables = {}
    for name in names:
        values = rows[name]
        fill = {STATUS: int(Status.MISSING), REASON: ""}.get(name, np.nan)
        kind = object if name == REASON else values.dtype
        whole = np.full((int(np.prod(shape)), *values.shape[1:]), fill, dtype=kind)
        whole[cells] = values.to_numpy()[done]
        variables[name] = (
            (*dimensions, *values.dims[1:]),
            whole.reshape(*shape, *values.shape[1:]),
        )
    coordinates: dict[str, object] = {name: list(labels) for name, labels in dimensions.items()}
    coordinates |= {name: (POINT, list(labels)) for name, labels in manifest.shared.items()}
    coordinates |= {
        axis: np.arange(size) + (axis == "drop") for axis, size in axes.items() if axis != "record"
    }
    dataset = xr.Dataset(variables, coordinates)
    dataset[STATUS].attrs["meaning"] = ", ".join(
        f"{one.value} {one.name.lower()}" for one in Status
    )
    return dataset.assign_attrs(plan=json.dumps(manifest.plans[-1]), digest=manifest.digest)


def shown_in_pictures(array: xr.Dataset) -> xr.Dataset:
    """What was kept over rising numbers, with NaN where a point diverged or failed.

    The last loss of a run that diverged is that of its last record, often the one it started from.
    """
    kept = array.drop_vars([STATUS, REASON], errors="ignore")
    if STATUS in array:
        kept = kept.where(array[STATUS] < Status.DIVERGED)
    return kept.sortby(
        [name for name, labels in kept.indexes.items() if labels.dtype.kind in "iuf"]
    )


def _check_files(path: Path, arrays: Iterable[str], columns: Iterable[str]) -> None:
    """Raise where a file is missing: zarr would read NaN in its place."""
    # A batch's status is written last, so the other files of these batches are there already.
    batches = _batches_in(path / STATUS)
    for name in arrays:
        if not (path / name / "zarr.json").is_file():
            raise FileNotFoundError(f"{name}/zarr.json is missing")
    for name in columns:
        lost = batches - _batches_in(path / name)
        if lost:
            raise FileNotFoundError(f"{name} lacks batch {min(lost, key=int)}")


def _batches_in(folder: Path) -> set[str]:
    """The numbers of the batches that an array has files of."""
    first = {name.split("/")[0] for name in files_in(folder / "c")}
    return {name for name in first if name.isdecimal()}


def _look_up(values: AnyArray, labels: list[object]) -> AnyArray:
    """The index of each value among labels; −1 where it is not one of them."""
    index = {value: i for i, value in reversed(list(enumerate(labels)))}
    unique, inverse = np.unique(values, return_inverse=True)
    indices = np.array([index.get(value, -1) for value in unique.tolist()], dtype=int)
    return indices[inverse.ravel()]
