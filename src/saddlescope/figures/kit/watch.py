"""What a figure's computation reports: how far it has come, and its unfinished runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import xarray as xr

from saddlescope import storage
from saddlescope.dynamics import Progress, train
from saddlescope.errors import CannotRead
from saddlescope.figures.kit.version import transformer_version
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory
from saddlescope.transformer import GrokkingExperiment, InductionExperiment

Item = TypeVar("Item")


class Watch:
    """Passes progress on, and keeps the runs of an unfinished figure in a folder.

    `report` is called with the share of the figure that is done, from 0 to 1. `shared` is a folder
    for experiments that more than one figure shows; it outlives the figures.
    """

    def __init__(
        self,
        report: Callable[[float], object] | None = None,
        folder: Path | None = None,
        shared: Path | None = None,
    ) -> None:
        self._report = report
        self._folder = folder
        self._shared = shared
        self._begin, self._end = 0.0, 1.0

    def done(self, share: float) -> None:
        """Report that a share of the present part is done."""
        if self._report is not None:
            self._report(self._begin + (self._end - self._begin) * share)

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Go through items that take about as long as one another."""
        begin, end, listed = self._begin, self._end, list(items)
        for index, item in enumerate(listed):
            self._begin = begin + (end - begin) * index / len(listed)
            self._end = begin + (end - begin) * (index + 1) / len(listed)
            self.done(0)
            yield item
        self._begin, self._end = begin, end
        self.done(1)

    def train(self, name: str, setting: Setting, start: Trajectory | None = None) -> Trajectory:
        """Train a setting, watched; under the same name an interrupted run is resumed.

        `start` is a run at whose end it begins.
        """
        saved, checkpoint = self._path(name), self._path(f"{name}.npz")
        if saved is not None and saved.exists():
            return storage.load(saved)
        last = Progress(0.0, 0.0)

        def report(progress: Progress) -> None:
            nonlocal last
            last = progress
            self.done(progress.share)

        try:
            run = train(setting, start=start, progress=report, checkpoint=checkpoint)
        except CannotRead:
            # What is left of an interrupted run is of another setting, or torn.
            assert checkpoint is not None
            checkpoint.unlink(missing_ok=True)
            run = train(setting, start=start, progress=report, checkpoint=checkpoint)
        if saved is not None and last.seconds > _WORTH_KEEPING:
            run.save(saved)
        return run

    def run(self, experiment: InductionExperiment | GrokkingExperiment) -> xr.Dataset:
        """Run an experiment with transformers, or read it where it was run before."""
        home = None
        if self._shared is not None:
            parts = (repr(experiment), experiment.inputs(), transformer_version())
            home = self._shared / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return experiment.run(home, lambda progress: self.done(progress.share))

    def _path(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name


# Seconds; a shorter run is done again faster than it is read.
_WORTH_KEEPING = 5.0
