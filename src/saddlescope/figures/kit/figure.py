"""`AbstractFigure`: a figure's setting, its run, its claims and its drawing in one class."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import xarray as xr
from matplotlib.figure import Figure

from saddlescope.errors import InvalidInput
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.watch import Watch


class AbstractFigure(abc.ABC):
    """A figure. A member is a frozen dataclass whose fields, with defaults, are its setting.

    `compute` trains and predicts and returns all numbers that the other two need, labelled;
    `claims` and `draw` see nothing else. `quick` is a reduced setting for tests and first looks.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """Where it was published."""
    text: ClassVar[str]
    """What it shows, and where what was published does not show what its caption says."""
    seconds: ClassVar[float]
    """About how long it takes on two cores, in seconds: its weight in the progress bar."""

    verb: ClassVar[str] = "reproduce"
    """The verb of the command line that makes it."""

    @classmethod
    @abc.abstractmethod
    def quick(cls) -> AbstractFigure:
        """The figure in a reduced setting, made in a few seconds."""

    @abc.abstractmethod
    def compute(self, watch: Watch) -> xr.Dataset:
        """Train and predict."""

    @abc.abstractmethod
    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        """What is claimed about the figure, judged from its numbers."""

    @abc.abstractmethod
    def draw(self, data: xr.Dataset) -> Figure:
        """The picture."""

    film: ClassVar[str] = ""
    """The file name of the film that belongs to the figure, if there is one."""

    def make_film(self, data: xr.Dataset, path: Path, watch: Watch) -> None:
        """Write the film that belongs to the figure."""
        raise NotImplementedError(f"{self.id} has no film")

    def setting(self) -> dict[str, Any]:
        """The fields by name, as plain values."""
        return {name: _plain(value) for name, value in asdict(self).items()}  # type: ignore[call-overload]

    @classmethod
    def from_setting(cls, setting: Mapping[str, Any]) -> AbstractFigure | None:
        """The figure that has this setting; None where no such figure can be."""
        names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if set(setting) != names:
            return None
        return cls(**{name: _frozen(value) for name, value in setting.items()})

    def inputs(self) -> str:
        """What names the data that the figure reads from outside, besides its setting."""
        return ""

    @classmethod
    def presets(cls) -> dict[tuple[str, ...], AbstractFigure]:
        """The settings that have a name, by the words that choose them at the command line."""
        return {(): cls(), ("--quick",): cls.quick()}

    def with_texts(self, texts: Mapping[str, str]) -> AbstractFigure:
        """The figure with other values of some fields, given as text."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        for name, text in texts.items():
            if name not in known:
                raise InvalidInput(
                    name.replace("_", "-"), text, f"{self.id} has {', '.join(known)}"
                )
        values = {name: _parse(name, text, known[name]) for name, text in texts.items()}
        return replace(self, **values)  # type: ignore[type-var]


def as_text(value: Any) -> str:
    """A plain value of a setting as the command line takes it.

    >>> as_text([.4, .3]), as_text(True)
    ('0.4,0.3', 'true')
    """
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, text: str, like: Any) -> Any:
    """A text as a value of the same type as another."""
    field = name.replace("_", "-")
    if isinstance(like, tuple):
        return tuple(_parse(name, part, like[0]) for part in text.split(","))
    if isinstance(like, bool):
        if text not in ("true", "false"):
            raise InvalidInput(field, text, "must be true or false")
        return text == "true"
    if isinstance(like, str):
        return text
    try:
        return type(like)(text)
    except ValueError:
        kind = "a whole number" if isinstance(like, int) else "a number"
        raise InvalidInput(field, text, f"must be {kind}, like {like}") from None


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
