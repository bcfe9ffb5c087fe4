"""What bad input and failed runs raise: one line that names the field, the value and the cure."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from saddlescope.running import Snapshot

__all__ = [
    "CannotRead",
    "CannotWrite",
    "Interrupted",
    "InvalidInput",
    "SaddlescopeError",
    "TheoryDoesNotApply",
]


class _Brief(reprlib.Repr):
    """Values in a few words, whatever they are."""

    def repr_int(self, value: int, level: int) -> str:
        try:
            return super().repr_int(value, level)
        except ValueError:
            # Python writes out no more than some thousand digits.
            return f"a whole number of {value.bit_length()} bits"


_brief = _Brief()
_brief.maxlist = _brief.maxtuple = _brief.maxdict = 6
_brief.maxstring = _brief.maxother = 80


def _show(value: object) -> str:
    if isinstance(value, str):
        return _brief.repr(value)
    return " ".join(_brief.repr(value).split())


class SaddlescopeError(Exception):
    """Base of every error that Saddlescope raises on purpose."""


class InvalidInput(SaddlescopeError, ValueError):
    """An input that cannot be used: `field = value: what is allowed`."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} = {_show(value)}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.allowed)


class TheoryDoesNotApply(SaddlescopeError):
    """Theory was asked where it makes no statement; the message says why and what still holds."""


class CannotRead(SaddlescopeError):
    """A saved run that is missing, damaged or of another format."""


class CannotWrite(SaddlescopeError):
    """A file that the system refuses to write: a full disk, a forbidden folder."""

    def __init__(self, path: Path, problem: OSError) -> None:
        reason = problem.strerror or type(problem).__name__
        super().__init__(f"path = {str(path)!r}: cannot be written: {reason}")


class Interrupted(SaddlescopeError):
    """Something long was stopped on request at a segment border.

    `snapshot` holds all that was computed: `snapshot.dataset` the records, `snapshot.result` the
    result so far; `resume(snapshot)` goes on. `signal` is the number of the signal that stopped it,
    None where an observer did.
    """

    def __init__(self, snapshot: Snapshot, signal: int | None = None) -> None:
        super().__init__("interrupted; what was computed is in .snapshot and can be resumed")
        self.snapshot = snapshot
        self.signal = signal
