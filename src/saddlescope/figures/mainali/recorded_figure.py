"""What the figures of metrics that were recorded on a GPU share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import xarray as xr

from saddlescope.figures.kit.figure import AbstractFigure
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
