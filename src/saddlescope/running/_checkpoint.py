"""`Checkpoint`: keeps an unfinished run in a folder, from which the same call resumes."""

from __future__ import annotations

import io
import re
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray, number
from saddlescope.errors import CannotRead, CannotWrite, InvalidInput
from saddlescope.running.files import MANIFEST, Sealed, as_path, write_bytes
from saddlescope.running.lock import hold
from saddlescope.running.observers import (
    AbstractJob,
    AbstractObserver,
    Result,
    Saved,
    Snapshot,
    State,
    log,
)

_KIND = "checkpoint"
_SECONDS = 5.0
_OURS = re.compile(r"(\.unfinished-)?((state|record)-\d{6}\.npz|manifest\.json)|\.lock|\.holder")


class Checkpoint(AbstractObserver):
    """Saves an unfinished run to a folder, every few seconds and when it is stopped.

    The same call resumes from there, to the same bits. A folder of another run is refused unless
    `replace` is true. A disk that cannot be written to is reported once; the run continues. Once
    the result is safe, `remove` deletes the checkpoint.

    >>> checkpoint = Checkpoint("unfinished")
    """

    def __init__(self, path: str | Path, *, replace: bool = False, every: float = _SECONDS) -> None:
        self.path = as_path("checkpoint", path)
        self._replace = bool(replace)
        self._every = number("every", every, at_least=0.0)
        self._sealed: Sealed | None = None
        self._held = ExitStack()
        self._written_at = 0.0
        self._has_complained = False

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        self._make_folder()
        self._held.enter_context(hold(self.path, "checkpoint"))
        self._sealed = Sealed(self.path, _KIND, job.digest)
        self._written_at = time.monotonic()
        if not (self.path / MANIFEST).exists():
            return None
        try:
            before = Sealed.read(self.path, _KIND)
            if before.digest != job.digest:
                raise CannotRead("belongs to another setting")
            saved = _read(before)
            # The state of another job is refused here, before anything runs.
            job.restore(saved)
        except CannotRead as problem:
            if self._replace:
                return None
            reason = str(problem).removeprefix(f"path = {str(self.path)!r}: ")
            raise CannotRead(
                f"checkpoint = {str(self.path)!r}: {reason}; remove it to start anew, or name "
                "another"
            ) from None
        self._sealed = before
        return saved

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        if time.monotonic() - self._written_at >= self._every:
            self._write(snapshot)

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:
        try:
            stopped = snapshot is not None and snapshot.request.requested
            if snapshot is not None and (stopped or not snapshot.is_finished):
                self._write(snapshot)
        finally:
            self._held.close()

    def remove(self) -> None:
        """Delete what was written; other files stay, and with them the folder."""
        if not self.path.is_dir():
            return
        # The manifest first: without it the rest is nothing.
        for file in (self.path / MANIFEST, *self.path.iterdir()):
            if _OURS.fullmatch(file.name):
                file.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def _make_folder(self) -> None:
        """Make the folder inside an existing one: a mistyped path must not leave folders behind."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput("checkpoint", str(self.path), "must be a folder, or not exist yet")
        try:
            self.path.parent.mkdir(exist_ok=True)
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise InvalidInput(
                "checkpoint", str(self.path), f"cannot be used: {problem.strerror}"
            ) from None

    def _write(self, snapshot: Snapshot[State, Result]) -> None:
        """Write what is new, then the manifest, then delete the previous state."""
        before = self._sealed
        assert before is not None
        saved = snapshot.job.save(snapshot.state)
        count = int(str(before.about.get("count", 0))) + 1
        state = f"state-{count:06d}.npz"
        records = {f"record-{index:06d}.npz": one for index, one in enumerate(saved.records)}
        kept = {name: before.files[name] for name in records if name in before.files}
        fresh = [name for name in records if name not in kept]
        try:
            for name in fresh:
                write_bytes(self.path / name, _pack(records[name]))
            leaves = {f"{index:06d}": leaf for index, leaf in enumerate(saved.state)}
            write_bytes(self.path / state, _pack(leaves))
            about = {"count": count}
            after = Sealed(self.path, _KIND, before.digest, about, kept).write(*fresh, state)
        except CannotWrite as problem:
            if not self._has_complained:
                log.warning("%s; the run goes on without its checkpoint", problem)
            self._has_complained = True
        else:
            self._sealed = after
            for name in set(before.files) - set(after.files):
                (self.path / name).unlink(missing_ok=True)
        self._written_at = time.monotonic()


def _read(sealed: Sealed) -> Saved:
    states = [name for name in sealed.files if name.startswith("state-")]
    records = sorted(name for name in sealed.files if name.startswith("record-"))
    if len(states) != 1:
        raise CannotRead("its manifest names no state")
    leaves = _unpack(sealed.content(states[0]))
    return Saved(
        tuple(leaves[name] for name in sorted(leaves)),
        tuple(_unpack(sealed.content(name)) for name in records),
    )


def _pack(arrays: dict[str, AnyArray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(content: bytes) -> dict[str, AnyArray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
