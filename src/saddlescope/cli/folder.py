"""The folder that a command writes to."""

from __future__ import annotations

from pathlib import Path

from saddlescope.errors import InvalidInput


def make_folder(folder: Path) -> None:
    """Make a folder, and see that a page can be written to it, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as problem:
        raise InvalidInput("out", str(folder), f"cannot be used: {problem.strerror}") from None
    if (folder / "index.html").is_dir():
        raise InvalidInput("out", str(folder), "cannot be used: its index.html is a folder")
