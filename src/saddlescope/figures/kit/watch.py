"""What a figure's computation reports to: its progress, and its unfinished runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import xarray as xr

from saddlescope import storage
from saddlescope.dynamics import train
from saddlescope.errors import CannotRead, CannotWrite
from saddlescope.figures.kit.version import transformer_version
from saddlescope.running import AbstractObserver, Checkpoint
from saddlescope.running.lock import taking_turns
from saddlescope.running.observers import log
from saddlescope.running.parts import Parts
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory
from saddlescope.transformer import GrokkingExperiment, InductionExperiment

Item = TypeVar("Item")

# Seconds; a shorter run is repeated faster than it is read.
_WORTH_KEEPING = 5.0


@dataclass(frozen=True, eq=False)
class Watch:
    """Shows the progress of a figure, and keeps its unfinished runs in a folder.

    `shared` is a folder for experiments that several figures show; it is kept afterwards.
    """

    parts: Parts = field(default_factory=Parts)
    folder: Path | None = None
    shared: Path | None = None

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Iterate over items that take about equally long."""
        return self.parts.each(items)

    def train(self, name: str, setting: Setting, start: Trajectory | None = None) -> Trajectory:
        """Train a setting; an interrupted run of the same name is resumed.

        `start` is a run at whose end it begins.
        """
        if self.folder is None:
            return train(setting, start=start, observers=[self.parts])
        saved = self.folder / name
        try:
            return storage.load(saved)
        except CannotRead:
            # It is missing or torn.
            self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint = Checkpoint(self.folder / f"{name}-checkpoint", replace=True)
        observers: list[AbstractObserver] = [self.parts, checkpoint]
        began = time.monotonic()
        run = train(setting, start=start, observers=observers)
        if time.monotonic() - began > _WORTH_KEEPING:
            try:
                run.save(saved)
            except CannotWrite as problem:
                log.warning("%s; the figure is made all the same", problem)
        checkpoint.remove()
        return run

    def run(self, experiment: InductionExperiment | GrokkingExperiment) -> xr.Dataset:
        """Run an experiment with transformers, or read its results if it was run before."""
        if self.shared is None:
            return experiment.run(None, [self.parts])
        parts = (repr(experiment), experiment.inputs(), transformer_version())
        home = self.shared / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        # Another figure may be running it now: its results are then read.
        with taking_turns(home):
            return experiment.run(home, [self.parts])
