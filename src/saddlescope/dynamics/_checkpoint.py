"""An unfinished run on disk: written whole or not at all, and tied to its setting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from saddlescope.arrays import Array
from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead


def write_checkpoint(path: str | Path, digest: str, leaves: Sequence[Array]) -> None:
    """Save a run's state; a kill while writing leaves the previous checkpoint as it was."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    arrays = {f"leaf_{place}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
    with unfinished.open("wb") as file:
        np.savez(file, digest=np.array(digest), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, target)


def read_checkpoint(path: str | Path, digest: str) -> tuple[AnyArray, ...] | None:
    """The saved state of the run with that digest, None where there is no checkpoint."""
    target = Path(path)
    if not target.exists():
        return None
    try:
        with target.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            owner = str(stored["digest"])
            leaves = tuple(stored[f"leaf_{place}"] for place in range(len(stored.files) - 1))
    except Exception:
        # A damaged archive raises whatever its damage makes zip and NumPy run into.
        raise CannotRead(
            f"checkpoint = {str(path)!r}: is damaged; remove it to start anew"
        ) from None
    if owner != digest:
        raise CannotRead(
            f"checkpoint = {str(path)!r}: belongs to another setting; remove it or name another"
        )
    return leaves
