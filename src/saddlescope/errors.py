"""What bad input and failed runs raise: one line that names the field, the value and the cure."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

    from saddlescope.trajectory import Trajectory

__all__ = [
    "CannotRead",
    "Interrupted",
    "InvalidInput",
    "SaddlescopeError",
    "TheoryDoesNotApply",
]

_brief = reprlib.Repr()
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


class Interrupted(SaddlescopeError):
    """A run stopped on request at a segment border; `trajectory` holds all that was computed."""

    def __init__(self, trajectory: Trajectory | xr.Dataset) -> None:
        super().__init__("interrupted; what was computed is in .trajectory and can be continued")
        self.trajectory = trajectory
