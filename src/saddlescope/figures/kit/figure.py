"""`AbstractFigure`: a figure's setting, its run, its claims and its drawing in one class."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import ClassVar

import xarray as xr

from saddlescope.charts import Sheet
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.kit.watch import Watch
from saddlescope.setting.kinds import kind, part


@part("figure")
class AbstractFigure(abc.ABC):
    """A figure: a frozen dataclass whose fields, all with defaults, are its setting.

    Subclasses register as kinds of the schema, which saves and loads them and makes their flags;
    the fields of a `Setting` or experiment that a figure holds count as its own.

    `compute` trains and predicts and returns all numbers that the other two need, labelled;
    `claims` and `draw` see nothing else. `quick` is a reduced setting for tests and first looks.
    `mistakes` are plausible errors in the numbers; each must change the verdict of a claim.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """Where it was published."""
    text: ClassVar[str]
    """What it shows, and where what was published does not show what its caption says."""
    departures: ClassVar[tuple[str, ...]] = ()
    """Where its setting is not the published one, if one was published."""
    seconds: ClassVar[float]
    """About how long it takes on two cores, in seconds: its weight in the progress bar."""

    varied: ClassVar[tuple[str, ...]] = ()
    """The fields of the setting that it holds which it gives values of its own: no flags."""

    verb: ClassVar[str] = "reproduce"
    """The verb of the command line that makes it."""

    def __init_subclass__(cls) -> None:
        if "id" in vars(cls):
            kind("figure", cls.id)(cls)

    @classmethod
    @abc.abstractmethod
    def quick(cls) -> AbstractFigure:
        """The figure in a reduced setting, made in a few seconds."""

    @abc.abstractmethod
    def compute(self, watch: Watch) -> xr.Dataset:
        """Train and predict."""

    @abc.abstractmethod
    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        """The claims about the figure, judged from its numbers."""

    def mistakes(self) -> tuple[Mistake, ...]:
        """Plausible errors in the numbers, every one of which the claims detect."""
        return ()

    @abc.abstractmethod
    def draw(self, data: xr.Dataset) -> Sheet:
        """The picture, as data."""

    film: ClassVar[str] = ""
    """The file name of the film that belongs to the figure, if there is one."""

    def make_film(self, data: xr.Dataset, path: Path, watch: Watch) -> None:
        """Write the film that belongs to the figure."""
        raise NotImplementedError(f"{self.id} has no film")

    def inputs(self) -> str:
        """Identifies data that the figure reads from outside, besides its setting."""
        return ""

    @classmethod
    def presets(cls) -> dict[tuple[str, ...], AbstractFigure]:
        """The named settings, by the words that choose them at the command line."""
        return {(): cls(), ("--quick",): cls.quick()}
