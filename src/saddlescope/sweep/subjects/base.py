"""What can be swept: making, forecasting and running points, and what to keep of them."""

from __future__ import annotations

import abc
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics.forecast import Forecast, Frame
from saddlescope.errors import InvalidInput
from saddlescope.setting.plain import Plain, digest

if TYPE_CHECKING:
    from saddlescope.sweep.plan import Plan

Item = TypeVar("Item")
Measure: TypeAlias = Callable[..., object]
"""A function of the result of a point that returns one number per seed."""


STATUS, REASON = "status", "reason"
"""The columns that every row has."""
NAMED_TWICE = "names two things: rename one of them"


class Status(IntEnum):
    """The status of a row, as stored."""

    MISSING = 0
    FINISHED = 1
    CONVERGED = 2
    DIVERGED = 3
    FAILED = 4


@dataclass(frozen=True)
class Column:
    """A quantity that is kept of every row: an array over `axes` of these sizes."""

    name: str
    axes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of a point: columns over its seeds, the status of each, and reasons."""

    columns: Mapping[str, FloatArray]
    status: AnyArray
    reasons: Mapping[int, str]


class AbstractSubject(abc.ABC, Generic[Item]):
    """A base that is swept, and what to keep of each point.

    - `known`: the names that can be kept, with their meaning.
    """

    base: Item
    measures: dict[str, Measure]
    names: tuple[str, ...]
    known: ClassVar[Mapping[str, str]]

    def settle(self, keep: Sequence[str | Measure]) -> None:
        """Check what to keep; functions, given directly or from a file, go by their name."""
        self.measures = {}
        owners: dict[str, Measure | None] = {}
        for one in keep:
            measure = one if callable(one) else _own_measure(one)
            name = one if measure is None else getattr(measure, "__name__", "")
            if not isinstance(name, str) or (measure is None and not self.has(name)):
                allowed = f"must be among {', '.join(self.known)}, or file:function of a module"
                raise InvalidInput("keep", one, allowed)
            if measure is not None:
                if not name.isidentifier():
                    raise InvalidInput("keep", one, "must be a function with a name")
                self.measures[name] = measure
                if self.has(name):
                    raise InvalidInput("keep", name, NAMED_TWICE)
            for column in self.expand(name):
                if owners.setdefault(column, measure) != measure:
                    raise InvalidInput("keep", column, NAMED_TWICE)
        self.names = tuple(owners)

    def measured(self, name: str, result: object, seeds: int) -> FloatArray:
        """One of the user's own measures of the result of a point, one number per seed."""
        values = np.asarray(self.measures[name](result))
        if values.size != seeds or values.dtype.kind not in "biuf":
            wanted = f"must return one number for each of {seeds} seeds"
            given = f"{values.dtype} of shape {values.shape}"
            raise InvalidInput("keep", name, f"{wanted}, and returned {given}")
        return values.astype(float).reshape(seeds)

    def kept(self) -> Plain:
        """What is kept, with digests of the source of the user's own measures."""
        return [[n, _made_from(self.measures[n])] if n in self.measures else n for n in self.names]

    def has(self, name: str) -> bool:
        """Whether that name can be kept."""
        return name in self.known

    def expand(self, name: str) -> tuple[str, ...]:
        """The columns of a name."""
        return (name,)

    @property
    @abc.abstractmethod
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the base."""

    @abc.abstractmethod
    def check_axes(self, names: Sequence[str]) -> None:
        """Raise where a field cannot be swept over."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Plain]:
        """The base as plain values."""

    @abc.abstractmethod
    def points(self, plan: Plan) -> list[Item]:
        """Every point of a plan, in order, each with its own seeds."""

    @abc.abstractmethod
    def with_seeds(self, item: Item, seeds: tuple[int, ...]) -> Item:
        """A point with some of its seeds."""

    @abc.abstractmethod
    def forecaster(self) -> Callable[[Item], Forecast]:
        """A function that forecasts a point: its duration, and what can share its program."""

    @abc.abstractmethod
    def columns(self, items: Sequence[Item], forecasts: Sequence[Forecast]) -> tuple[Column, ...]:
        """The columns of these points, large enough for all of them."""

    @abc.abstractmethod
    def frame(self, sizes: Mapping[str, int], rows: int) -> Frame | None:
        """The shape that a batch of points of at most these sizes is padded to."""

    @abc.abstractmethod
    def run(self, items: Sequence[Item], frame: Frame | None) -> list[Outcome]:
        """Run the points of a batch."""


def _own_measure(name: object) -> Measure | None:
    """The function that `file:function` names, in a loaded file."""
    module, colon, attribute = str(name).partition(":")
    found = getattr(sys.modules.get(module), attribute, None) if colon else None
    return found if callable(found) else None


def _made_from(measure: Measure) -> str:
    """A digest of the source of a function, if it is available."""
    try:
        return digest(inspect.getsource(measure))
    except (OSError, TypeError):
        return ""
