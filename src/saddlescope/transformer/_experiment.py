"""The interface of experiments with decoders: one object of the schema that can be run."""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from saddlescope.checks import seed_labels, whole_number
from saddlescope.errors import CannotWrite
from saddlescope.running import AbstractObserver, Checkpoint
from saddlescope.running.files import make_folder
from saddlescope.running.observers import log
from saddlescope.setting.kinds import part
from saddlescope.setting.plain import describe
from saddlescope.transformer._decoder import DecoderShape
from saddlescope.transformer._metrics import (
    from_bytes,
    has_metrics,
    load_metrics,
    name_origin,
    save_metrics,
    to_bytes,
)
from saddlescope.transformer._optimiser import AdamW
from saddlescope.transformer._training import fit, recorded_steps
from saddlescope.transformer.sources import AbstractSource


@part("experiment")
class AbstractExperiment(abc.ABC):
    """Decoders trained alike, and what is measured of them.

    - `seeds`: how many, or which: 3 or 4,7.
    - `layers`: the depth of the decoder, or its depths.
    - `heads`: the heads of a layer.
    - `d_model`: the width of the residual stream.
    - `steps`: the number of training steps.
    - `learning_rate`: the learning rate of AdamW.
    - `weight_decay`: the weight decay of AdamW.
    - `betas`: the decay rates of AdamW's two moments.
    - `warmup`: the number of first steps over which the learning rate rises.
    - `cooldown`: the number of last steps over which it falls to 0; 0 for a constant rate.
    - `record`: how many steps to measure, or which.
    """

    seeds: ArrayLike
    steps: int
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    warmup: int
    cooldown: int
    record: ArrayLike

    @abc.abstractmethod
    def run(self, folder: str | Path | None = None, observers: object = ()) -> xr.Dataset:
        """Train and measure; with a `folder`, finished parts are kept there."""

    def inputs(self) -> str:
        """Identifies the data that comes from outside."""
        return ""

    def written(self) -> dict[str, object]:
        """The fields, seeds from 0 on and even records by their number."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        count, points = np.size(self.seeds), np.size(self.record)
        if self.seeds == tuple(range(count)):
            fields["seeds"] = count
        if points > 1 and np.array_equal(recorded_steps(self.steps, points), self.record):
            fields["record"] = points
        return fields

    def setting(self) -> str:
        """Identifies the experiment, as JSON."""
        return json.dumps(describe(self), sort_keys=True)

    def load(self, folder: Path | None) -> xr.Dataset | None:
        """The metrics in a folder, if any; those of another experiment are refused."""
        if folder is None or not has_metrics(folder):
            return None
        return load_metrics(folder, name_origin(self.setting(), self.inputs()))

    def keep(self, metrics: xr.Dataset, folder: Path) -> xr.Dataset:
        """Keep metrics in a folder, and return them as they will be read from there, bit for bit.

        They are returned even if the disk is full.
        """
        try:
            save_metrics(metrics, folder)
        except CannotWrite as problem:
            log.warning("%s; the metrics are not kept", problem)
        return from_bytes(to_bytes(metrics))

    def resumed(
        self,
        train: Callable[[Checkpoint | None], xr.Dataset],
        home: Path | None,
        folder: str = "",
        checkpoint: str = "checkpoint",
    ) -> xr.Dataset:
        """The metrics kept in a folder; if there are none, train and keep them there.

        An unfinished training survives in a checkpoint beside it.
        """
        if home is None:
            return train(None)
        metrics = self.load(home / folder)
        if metrics is None:
            make_folder(home)
            unfinished = Checkpoint(home / checkpoint)
            metrics = self.keep(train(unfinished), home / folder)
            unfinished.remove()
        return metrics

    def settle(self, *parts: object) -> None:
        """Check the fields; those that a part has too take the part's form."""
        steps = whole_number("steps", self.steps)
        record = tuple(recorded_steps(steps, self.record).tolist())
        vars(self).update(seeds=seed_labels(self.seeds), steps=steps, record=record)
        optimiser = AdamW(
            self.learning_rate, self.weight_decay, self.betas, self.warmup, self.cooldown
        )
        for checked in (optimiser, *parts):
            own = {name: vars(checked)[name] for name in vars(self) if name in vars(checked)}
            vars(self).update(own)

    def train(
        self,
        shape: DecoderShape,
        source: AbstractSource,
        checkpoint: Checkpoint | None,
        observers: Sequence[AbstractObserver],
        batch_size: int = 32,
    ) -> xr.Dataset:
        """Train one decoder, or resume from its checkpoint."""
        return fit(
            shape,
            source,
            steps=self.steps,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            betas=self.betas,
            warmup=self.warmup,
            cooldown=self.cooldown,
            seeds=self.seeds,
            record=self.record,
            observers=[*observers, *([] if checkpoint is None else [checkpoint])],
        ).dataset.assign_attrs(setting=self.setting(), inputs=self.inputs())
