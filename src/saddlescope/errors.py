"""The errors: one line each, naming the field, the value and what is allowed."""

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
    """Short texts of values of any kind."""

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
    """Base of every error that Saddlescope raises on purpose.

    >>> import saddlescope as ss
    >>> try:
    ...     ss.load("no/such/run")
    ... except ss.SaddlescopeError as problem:
    ...     print(type(problem).__name__)
    CannotRead
    """


class InvalidInput(SaddlescopeError, ValueError):
    """Invalid input: `field = value: what is allowed`.

    >>> import saddlescope as ss
    >>> ss.InvalidInput("heads", 0, "must be at least 1")
    InvalidInput('heads = 0: must be at least 1')
    >>> try:
    ...     ss.SeparateAttention(heads=0)
    ... except ss.InvalidInput as problem:
    ...     print(problem.field, problem.value)
    heads 0
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} = {_show(value)}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.allowed)


class TheoryDoesNotApply(SaddlescopeError):
    """No theory applies; the message says why, and what still holds.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> try:
    ...     ss.theory.escape_direction(ss.SeparateAttention(heads=2), task, subset=[0])
    ... except ss.TheoryDoesNotApply as silence:
    ...     print(str(silence).partition(":")[0])
    M({0}) has index 0
    """


class CannotRead(SaddlescopeError):
    """A saved run is missing, damaged or of another format.

    >>> import saddlescope as ss
    >>> try:
    ...     ss.load("no/such/run")
    ... except ss.CannotRead as problem:
    ...     print(problem)
    path = 'no/such/run': there is no saved run
    """


class CannotWrite(SaddlescopeError):
    """A file cannot be written: the disk is full, the folder forbidden.

    `path` is the file or folder, `problem` the system's error.

    >>> import saddlescope as ss
    >>> from pathlib import Path
    >>> print(ss.CannotWrite(Path("run"), PermissionError(13, "Permission denied")))
    path = 'run': cannot be written: Permission denied
    """

    def __init__(self, path: Path, problem: OSError) -> None:
        reason = problem.strerror or type(problem).__name__
        super().__init__(f"path = {str(path)!r}: cannot be written: {reason}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type[CannotWrite], tuple[Path, OSError]]:
        return type(self), (self.path, self.problem)


class Interrupted(SaddlescopeError):
    """A long computation was stopped on request at a segment border.

    `snapshot` holds everything computed so far: `snapshot.dataset` the records, `snapshot.result`
    the result; `resume(snapshot)` continues. `signal` is the number of the signal that stopped it,
    None where an observer did.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> stop = ss.StopWhen(lambda snapshot: True)
    >>> try:
    ...     ss.train(model, task, method=method, observers=[stop])
    ... except ss.Interrupted as stopped:
    ...     run = ss.resume(stopped.snapshot)
    >>> run.loss.shape
    (1, 21)
    """

    def __init__(self, snapshot: Snapshot, signal: int | None = None) -> None:
        super().__init__("interrupted; what was computed is in .snapshot and can be resumed")
        self.snapshot = snapshot
        self.signal = signal
