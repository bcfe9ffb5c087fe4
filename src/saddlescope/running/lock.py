"""A folder that one process at a time may write to."""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from saddlescope.errors import InvalidInput

_LOCK, _HOLDER = ".lock", ".holder"


@contextmanager
def hold(folder: Path, field: str, known_as: Path | None = None) -> Iterator[None]:
    """Hold a folder; if another process or thread holds it, the refusal says who.

    The system releases it when the process ends, however that happens. `known_as` is the path that
    the refusal names, if the user knows the folder by another one.
    """
    from filelock import FileLock, Timeout

    if not folder.is_dir():
        raise InvalidInput(field, str(folder), "cannot be used: there is no such folder")
    shown = str(known_as or folder)
    lock = FileLock(folder / _LOCK, timeout=0, is_singleton=False)
    holder = folder / _HOLDER
    try:
        lock.acquire()
    except Timeout:
        who = _read(holder)
        cure = "wait until it ends, or name another"
        raise InvalidInput(field, shown, f"is in use by {who}: {cure}") from None
    except OSError as problem:
        raise InvalidInput(field, shown, f"cannot be used: {problem.strerror}") from None
    try:
        # On a full disk the lock holds all the same.
        with suppress(OSError):
            holder.write_text(f"process {os.getpid()} of {_user()} on {platform.node()}\n")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


@contextmanager
def taking_turns(folder: Path) -> Iterator[None]:
    """Wait until no other process has its turn at a folder, which need not exist yet."""
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(folder.name + _LOCK), is_singleton=False):
        yield


def remove_lock(folder: Path) -> None:
    """Remove what `hold` leaves in a folder, where nobody else can be about to take it."""
    (folder / _LOCK).unlink(missing_ok=True)


def _read(holder: Path) -> str:
    try:
        return holder.read_text(encoding="utf-8").strip() or "another process"
    except (OSError, ValueError):
        return "another process"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
