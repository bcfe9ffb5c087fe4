"""Trajectories on disk: a folder of zarr arrays, with a manifest of checksums."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.files import Sealed, as_path, find_folder, replacing_folder
from saddlescope.setting import Setting
from saddlescope.trajectory import Outcomes, Trajectory

if TYPE_CHECKING:
    import zarr
    from zarr.core.buffer import Buffer

__all__ = ["load"]

_KIND = "run"


def save(trajectory: Trajectory, path: str | Path, *, overwrite: bool = False) -> Path:
    """Save a trajectory to a folder; an existing one is replaced only with `overwrite`."""
    import zarr

    target = as_path("path", path)
    with replacing_folder(target, _KIND, overwrite=overwrite) as folder:
        # In memory first: zarr writes files in threads of its own, which would still be at it when
        # one of them fails and the folder is removed.
        files: dict[str, Buffer] = {}
        store = zarr.storage.MemoryStore(files)
        trajectory.dataset.to_zarr(store, group="dataset", consolidated=False, zarr_format=3)
        root = zarr.open_group(store, mode="a", zarr_format=3)
        arrays: dict[str, AnyArray] = {}
        about = {
            "setting": trajectory.setting.to_dict(arrays),
            "messages": {str(i): text for i, text in trajectory.outcomes.messages.items()},
            "time_start": trajectory.time_start,
        }
        _write(root, "arrays", arrays)
        _write(root, "outcomes", {"codes": trajectory.outcomes.codes})
        _write(root, "state", {str(index): leaf for index, leaf in enumerate(trajectory.state)})
        names = sorted(files)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(files.pop(name).to_bytes())
        Sealed(folder, _KIND, trajectory.setting.digest, about).write(*names)
    return target


def load(path: str | Path) -> Trajectory:
    """Load a trajectory that `save` wrote.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ss.load(run.save(f"{folder}/run")).equals(run)
    True
    """
    import zarr

    target = as_path("path", path)
    sealed = Sealed.read(find_folder(target), _KIND)
    try:
        store = zarr.storage.MemoryStore(_Checked(sealed), read_only=True)
        root = zarr.open_group(store, mode="r", zarr_format=3)
        dataset = xr.open_zarr(
            store, group="dataset", consolidated=False, zarr_format=3, chunks=None
        ).load()
        arrays, stored = _read(root, "arrays"), _read(root, "state")
        state = tuple(stored[str(index)] for index in range(len(stored)))
        setting = Setting.from_dict(sealed.about["setting"], arrays)
        messages = {int(i): str(text) for i, text in sealed.about["messages"].items()}  # type: ignore[attr-defined]
        outcomes = Outcomes(_read(root, "outcomes")["codes"], messages)
    except InvalidInput as wrong:
        # A class of the user's own is found only where the user has imported it.
        why = "cannot be read here" if wrong.field.endswith(".kind") else "is damaged"
        raise CannotRead(f"path = {str(path)!r}: {why} ({wrong})") from None
    return Trajectory(dataset, setting, outcomes, state, float(str(sealed.about["time_start"])))


class _Checked(MutableMapping[str, "Buffer"]):
    """The files of a folder as a zarr store, each checked when it is read.

    Files that the manifest does not name are hidden; one that it names must exist, since zarr
    silently reads a missing chunk as missing values.
    """

    def __init__(self, sealed: Sealed) -> None:
        self._sealed = sealed

    def __getitem__(self, name: str) -> Buffer:
        from zarr.core.buffer import default_buffer_prototype

        if name not in self._sealed.files:
            raise KeyError(name)
        return default_buffer_prototype().buffer.from_bytes(self._sealed.content(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sealed.files)

    def __len__(self) -> int:
        return len(self._sealed.files)

    def __setitem__(self, name: str, value: Buffer) -> None:
        raise TypeError("a saved run is not written to")

    def __delitem__(self, name: str) -> None:
        raise TypeError("a saved run is not written to")


def _write(root: zarr.Group, name: str, arrays: dict[str, AnyArray]) -> None:
    group = root.create_group(name)
    for key, value in arrays.items():
        group.create_array(key, data=np.asarray(value))


def _read(root: zarr.Group, name: str) -> dict[str, AnyArray]:
    return {key: np.asarray(array[...]) for key, array in root[name].arrays()}  # type: ignore
