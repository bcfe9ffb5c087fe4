"""The folder that a command writes to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saddlescope.errors import InvalidInput
from saddlescope.running.lock import hold, remove_lock


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder, check that it is writable before any work is done, and lock it.

    If the input turns out bad, the folders made here are removed again.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as problem:
        raise InvalidInput("out", str(folder), f"cannot be used: {problem.strerror}") from None
    if (folder / "index.html").is_dir():
        raise InvalidInput("out", str(folder), "cannot be used: its index.html is a folder")
    try:
        with hold(folder, "out"):
            yield
    except InvalidInput:
        remove_lock(folder)
        for path in made:
            if not any(path.iterdir()):
                path.rmdir()
        raise
