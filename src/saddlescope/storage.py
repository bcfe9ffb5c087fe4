"""Trajectories on disk: a zarr folder with a format version, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.setting import Setting
from saddlescope.trajectory import Outcome, Result, Trajectory

if TYPE_CHECKING:
    import zarr

__all__ = ["load"]

FORMAT = 2


def save(trajectory: Trajectory, path: str | Path, *, overwrite: bool = False) -> Path:
    """Save a trajectory to a folder; an existing one is replaced only when told to."""
    import zarr

    target = Path(path)
    if target.exists() and not overwrite:
        raise InvalidInput("path", str(path), "exists already; overwrite=True replaces it")
    unfinished = target.with_name(f".{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    trajectory.dataset.to_zarr(unfinished, group="dataset", consolidated=False, zarr_format=3)
    root = zarr.open_group(unfinished, mode="a", zarr_format=3)
    arrays: dict[str, AnyArray] = {}
    setting = trajectory.setting.to_dict(arrays)
    _write(root, "arrays", arrays)
    _write(root, "state", {str(place): leaf for place, leaf in enumerate(trajectory.state)})
    root.attrs.update(
        saddlescope_format=FORMAT,
        setting=json.dumps(setting),
        outcomes=[[outcome.result, outcome.message] for outcome in trajectory.outcomes],
        time_start=trajectory.time_start,
        checksums=_checksums(trajectory.dataset, arrays, trajectory.state),
    )
    if target.exists():
        shutil.rmtree(target)
    unfinished.rename(target)
    return target


def load(path: str | Path) -> Trajectory:
    """Load a trajectory that `save` wrote."""
    import zarr

    target = Path(path)
    if not target.is_dir():
        raise CannotRead(f"path = {str(path)!r}: there is no saved run")
    try:
        root = zarr.open_group(target, mode="r")
        version = root.attrs.get("saddlescope_format")
        if version != FORMAT:
            raise CannotRead(
                f"path = {str(path)!r}: has format {version}, this version reads format {FORMAT}"
            )
        dataset = xr.open_zarr(target, group="dataset", consolidated=False, chunks=None).load()
        arrays, stored = _read(root, "arrays"), _read(root, "state")
        state = tuple(stored[str(place)] for place in range(len(stored)))
        if _checksums(dataset, arrays, state) != root.attrs["checksums"]:
            raise CannotRead(f"path = {str(path)!r}: is damaged (its data are not what was saved)")
        setting = Setting.from_dict(json.loads(str(root.attrs["setting"])), arrays)
        ended: Any = root.attrs["outcomes"]
        outcomes = tuple(Outcome(Result(result), message) for result, message in ended)
        start = float(root.attrs["time_start"])  # type: ignore[arg-type]
    except CannotRead:
        raise
    except InvalidInput as wrong:
        # A class of the user's own is found only where the user has imported it.
        why = "cannot be read here" if wrong.field.endswith(".kind") else "is damaged"
        raise CannotRead(f"path = {str(path)!r}: {why} ({wrong})") from None
    except Exception as error:
        # zarr and its codecs raise many kinds of errors on damaged files; all mean the same here.
        raise CannotRead(
            f"path = {str(path)!r}: is damaged or no saved run ({type(error).__name__})"
        ) from error
    return Trajectory(dataset, setting, outcomes, state, start)


def _checksums(
    dataset: xr.Dataset, arrays: dict[str, AnyArray], state: tuple[AnyArray, ...]
) -> dict[str, str]:
    """A digest of all data: zarr reads a missing file as missing values, without a word."""
    everything = {
        **{f"dataset/{name}": variable for name, variable in dataset.variables.items()},
        **{f"arrays/{name}": array for name, array in arrays.items()},
        **{f"state/{place}": leaf for place, leaf in enumerate(state)},
    }
    return {
        name: hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
        for name, values in everything.items()
    }


def _write(root: zarr.Group, name: str, arrays: dict[str, AnyArray]) -> None:
    group = root.create_group(name)
    for key, value in arrays.items():
        group.create_array(key, data=np.asarray(value))


def _read(root: zarr.Group, name: str) -> dict[str, AnyArray]:
    return {key: np.asarray(array[...]) for key, array in root[name].arrays()}  # type: ignore
