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
    """A figure. A member is a frozen dataclass whose fields, with defaults, are its setting.

    It registers as a kind of the schema, which writes it down, reads it and makes its flags; where
    it holds a `Setting` or an experiment, the fields of that are its own.

    `compute` trains and predicts and returns all numbers that the other two need, labelled;
    `claims` and `draw` see nothing else. `quick` is a reduced setting for tests and first looks.
    `mistakes` names what could have gone wrong in the numbers; each of them costs a claim its
    verdict.
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
        """What is claimed about the figure, judged from its numbers."""

    def mistakes(self) -> tuple[Mistake, ...]:
        """Plausible errors in the numbers, of which the claims notice every one."""
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
        """What names the data that the figure reads from outside, besides its setting."""
        return ""

    @classmethod
    def presets(cls) -> dict[tuple[str, ...], AbstractFigure]:
        """The settings that have a name, by the words that choose them at the command line."""
        return {(): cls(), ("--quick",): cls.quick()}
