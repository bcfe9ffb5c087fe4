"""What a figure's computation reports: how far it has come, and its unfinished runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import xarray as xr

from saddlescope import storage
from saddlescope.dynamics import train
from saddlescope.errors import CannotRead, CannotWrite
from saddlescope.figures.kit.version import transformer_version
from saddlescope.running import AbstractObserver, Checkpoint
from saddlescope.running.observers import log
from saddlescope.running.parts import Parts
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory
from saddlescope.transformer import GrokkingExperiment, InductionExperiment

Item = TypeVar("Item")

# Seconds; a shorter run is done again faster than it is read.
_WORTH_KEEPING = 5.0


class Watch:
    """Shows how far a figure has come, and keeps its unfinished runs in a folder.

    `shared` is a folder for experiments that more than one figure shows; it outlives the figures.
    """

    def __init__(
        self,
        parts: Parts | None = None,
        folder: Path | None = None,
        shared: Path | None = None,
    ) -> None:
        self._parts = Parts() if parts is None else parts
        self._folder = folder
        self._shared = shared

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Go through items that take about as long as one another."""
        return self._parts.each(items)

    def train(self, name: str, setting: Setting, start: Trajectory | None = None) -> Trajectory:
        """Train a setting, watched; under the same name an interrupted run is resumed.

        `start` is a run at whose end it begins.
        """
        if self._folder is None:
            return train(setting, start=start, observers=[self._parts])
        saved = self._folder / name
        try:
            return storage.load(saved)
        except CannotRead:
            # It is not there, or torn.
            self._folder.mkdir(parents=True, exist_ok=True)
        checkpoint = Checkpoint(self._folder / f"{name}-checkpoint", replace=True)
        observers: list[AbstractObserver] = [self._parts, checkpoint]
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
        """Run an experiment with transformers, or read it where it was run before."""
        home = None
        if self._shared is not None:
            parts = (repr(experiment), experiment.inputs(), transformer_version())
            home = self._shared / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return experiment.run(home, [self._parts])
