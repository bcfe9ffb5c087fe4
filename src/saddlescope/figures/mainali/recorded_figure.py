"""What the figures of metrics that were recorded on a GPU share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import xarray as xr

from saddlescope.charts import Sheet
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.induction_sheet import LABELS, draw_induction, induction_numbers
from saddlescope.transformer.recorded import digest, recorded


@dataclass(frozen=True)
class AbstractRecordedFigure(AbstractFigure):
    """A figure of the first `seeds` seeds of an experiment whose metrics are in the package."""

    seeds: int = 3

    metrics: ClassVar[str]
    """The name of the recorded metrics."""
    seconds = 2.0

    @classmethod
    def quick(cls) -> AbstractRecordedFigure:
        return cls(seeds=2)

    def inputs(self) -> str:
        return digest(self.metrics)

    def read(self) -> xr.Dataset:
        """The recorded metrics."""
        return recorded(self.metrics, self.seeds)


@dataclass(frozen=True)
class AbstractRecordedInduction(AbstractRecordedFigure):
    """A figure of a recorded induction experiment, with all of its measures."""

    def compute(self, watch: Watch) -> xr.Dataset:
        return induction_numbers(self.read())

    def draw(self, data: xr.Dataset) -> Sheet:
        return draw_induction(data, tuple(LABELS))
