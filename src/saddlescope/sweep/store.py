"""A sweep on disk: one process writes it, batch by batch; anyone can read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.files import MANIFEST, Sealed, as_path, make_folder, write_bytes
from saddlescope.running.lock import hold, remove_lock
from saddlescope.running.observers import log
from saddlescope.sweep._arrays import ABOUT, Arrays, manifest_in
from saddlescope.sweep._labelled import labelled
from saddlescope.sweep._manifest import Manifest, code_versions, differences, same_plan
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.kernel import Batch, BatchResult
from saddlescope.sweep.plan import POINT, SEED, Plan
from saddlescope.sweep.subjects import Status

if TYPE_CHECKING:
    import xarray as xr

_KIND = "sweep"


class Store:
    """The folder of a sweep while it runs."""

    def __init__(self, path: Path, generations: list[Batches], arrays: Arrays) -> None:
        self.path = path
        self._generations = generations
        self._arrays = arrays
        self.manifest = arrays.manifest
        self.done = np.zeros(self.manifest.batches, dtype=bool)
        """Which batches are complete."""
        self.failures = np.zeros(self.manifest.batches, dtype=int)
        """The number of rows of each batch that failed or diverged."""

    @property
    def rows(self) -> AnyArray:
        """The number of rows of each batch."""
        return np.concatenate([one.counts for one in self._generations])

    def batch(self, number: int) -> Batch:
        """The batch of that number."""
        for batches in self._generations:
            if number < len(batches):
                return batches[number]
            number -= len(batches)
        raise IndexError(number)

    @property
    def seconds(self) -> AnyArray:
        """The expected seconds of each batch on one core."""
        return np.concatenate([one.work for one in self._generations])

    def write(self, result: BatchResult) -> None:
        """Write a batch; it counts once its last file is written."""
        # A batch that is rerun does not count while it is rewritten.
        (self.path / self._arrays.status_path(result.number)).unlink(missing_ok=True)
        for path, content in self._arrays.encode(result):
            target = self.path / path
            make_folder(target.parent)
            write_bytes(target, content)
        self.done[result.number] = True
        self.failures[result.number] = int((result.status >= Status.DIVERGED).sum())

    def check(self, *, retry_failed: bool) -> None:
        """Find the complete batches, and report those that are damaged."""
        damaged = []
        for number in range(len(self.done)):
            if not (self.path / self._arrays.status_path(number)).exists():
                continue
            status = self._arrays.read_status(self.path, number)
            if status is None:
                damaged.append(number)
                continue
            self.failures[number] = int((status >= Status.DIVERGED).sum())
            self.done[number] = not (retry_failed and self.failures[number])
        self.failures[~self.done] = 0
        if damaged:
            listed = ", ".join(map(str, damaged[:8])) + (", …" if len(damaged) > 8 else "")
            log.warning("damaged batches are recomputed: %s", listed)

    def dataset(self) -> xr.Dataset:
        """The labelled array so far."""
        return labelled(self.path, self.manifest)


@contextmanager
def working_store(
    path: Path, plan: Plan, *, extend: bool = False, retry_failed: bool = False
) -> Iterator[Store]:
    """The store of a plan, created or resumed, and locked while it is in use."""
    target = as_path("out", path)
    about, is_new = target / ABOUT, _find(target, aloud=False) is None
    make_folder(about)
    try:
        with hold(about, "out", known_as=target):
            # Another process may have written to it before the lock was taken.
            store = _prepare(target, plan, _find(target), extend)
            store.check(retry_failed=retry_failed)
            yield store
    except InvalidInput:
        if is_new and not _holds_more(target):
            # Bad input leaves nothing behind.
            remove_lock(about)
            about.rmdir()
            target.rmdir()
        raise


def open_store(path: Path) -> xr.Dataset:
    """The labelled array of a store, whether it is finished or not."""
    target = as_path("store", path)
    try:
        manifest = _find(target, aloud=False)
    except InvalidInput:
        manifest = None
    if manifest is None:
        raise CannotRead(f"store = {str(target)!r}: there is no sweep")
    return labelled(target, manifest)


def _prepare(path: Path, plan: Plan, before: Manifest | None, extend: bool) -> Store:
    if before is None:
        generations = [Batches(plan)]
        chunk = int(generations[0].counts.max())
    else:
        changed = list(differences(before.code, code_versions()))
        if changed:
            _refuse(path, "was computed by another version", changed, "choose another store")
        generations, chunk = _generations(path, plan, before, extend), before.chunk
    manifest = Manifest.of(generations, chunk)
    grown = [batches.columns for batches in generations]
    arrays = Arrays(manifest, _row_labels(generations, manifest), grown)
    _write_metadata(path, arrays, before)
    return Store(path, generations, arrays)


def _generations(path: Path, plan: Plan, before: Manifest, extend: bool) -> list[Batches]:
    """The batches of every plan that the store has had, in order."""
    changed = same_plan(before, plan)
    if changed and not extend:
        cure = "--extend adds new values of axes; or choose another store"
        _refuse(path, "has another plan", changed, cure)
    known = before.plans if changed else before.plans[:-1]
    plans = [*(_smaller(plan, one) for one in known), plan]
    generations: list[Batches] = []
    for earlier, one in zip([None, *plans[:-1]], plans, strict=True):
        first = sum(len(known) for known in generations)
        generations.append(Batches(one, earlier, first, before.chunk if generations else None))
    return generations


def _smaller(plan: Plan, before: object) -> Plan:
    """An earlier plan of a store, from a larger one of the same base."""
    assert isinstance(before, dict)
    now = plan.to_dict()
    rest = [name for name in now if name not in ("axes", "draws") and now[name] != before[name]]
    then, here = before["base"], now["base"]
    assert isinstance(then, dict)
    assert isinstance(here, dict)
    if rest == ["base"] and {**here, "seeds": then["seeds"]} == then:
        said = f"must stay {then['seeds']}: seeds are added as an axis"
        raise InvalidInput("base.seeds", here["seeds"], said)
    if rest:
        changed = list(differences({n: before[n] for n in rest}, {n: now[n] for n in rest}))
        raise InvalidInput("extend", rest[0], f"only axes may grow: {'; '.join(changed)}")
    return replace(plan, axes=before["axes"], draws=before["draws"])


def _refuse(path: Path, what: str, changed: list[str], cure: str) -> None:
    listed = "; ".join(changed[:6]) + ("; …" if len(changed) > 6 else "")
    raise InvalidInput("out", str(path), f"{what}: {listed}; {cure}")


def _find(path: Path, *, aloud: bool = True) -> Manifest | None:
    """The manifest of a store, or its copy where the manifest is damaged."""
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return None
    except OSError as problem:
        raise InvalidInput("out", str(path), f"cannot be read: {problem.strerror}") from None
    root = path / "zarr.json"
    try:
        copy = manifest_in(root.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        copy = None
    try:
        return Manifest.from_dict(Sealed.read(path / ABOUT, _KIND).about)
    except CannotRead as problem:
        missing = not (path / ABOUT / MANIFEST).exists()
        if copy is not None:
            if not missing and aloud:
                log.warning("%s; it is restored from its copy", problem)
            return copy
        if missing and not _holds_more(path):
            # A kill came before anything was written.
            return None
        if missing:
            raise InvalidInput(
                "out", str(path), "exists and is not a sweep: choose another"
            ) from None
        raise


def _holds_more(path: Path) -> bool:
    if not path.is_dir():
        return True
    return any(inner.name != ABOUT for inner in path.iterdir())


def _write_metadata(path: Path, arrays: Arrays, before: Manifest | None) -> None:
    """Write the files of an empty store that are missing, and report damaged ones."""
    manifest = arrays.manifest
    same = before is not None and before.to_dict() == manifest.to_dict()
    for name, content in arrays.metadata.items():
        target = path / name
        try:
            existing: bytes | None = target.read_bytes()
        except OSError:
            existing = None
        if existing == content:
            continue
        if same and (path / ABOUT / MANIFEST).exists():
            log.warning("%s was damaged and is rewritten", name)
        make_folder(target.parent)
        write_bytes(target, content)
    sealed = Sealed(path / ABOUT, _KIND, manifest.digest, manifest.to_dict())
    try:
        if same and Sealed.read(path / ABOUT, _KIND).digest == manifest.digest:
            return
    except CannotRead:
        pass
    sealed.write()


def _row_labels(generations: list[Batches], manifest: Manifest) -> dict[str, AnyArray]:
    """The coordinates along rows, in batch order; padding rows have seed −1."""
    plan = generations[-1].plan
    chunk, coordinates = manifest.chunk, plan.coordinates()
    cells = np.full(manifest.batches * chunk, -1)
    number = 0
    for batches in generations:
        for index in range(len(batches)):
            filled = batches.cells(index, plan)
            cells[number * chunk : number * chunk + len(filled)] = filled
            number += 1
    shape = tuple(plan.dimensions.values())
    indices = np.unravel_index(np.maximum(cells, 0), shape)
    along = dict(zip(plan.dimensions, indices, strict=True))
    rows: dict[str, AnyArray] = {}
    if POINT in along:
        rows[POINT] = np.where(cells < 0, -1, along[POINT])
    for name, (dimension, labels) in coordinates.items():
        rows[name] = labels[along[dimension]]
    if SEED in rows:
        rows[SEED] = np.where(cells < 0, -1, rows[SEED])
    return rows
