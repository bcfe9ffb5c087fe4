"""What every experiment with decoders is: one object of the schema, which can be run."""

from __future__ import annotations

import abc
import dataclasses
import json
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.errors import CannotRead
from saddlescope.running.progress import Report
from saddlescope.setting.kinds import part
from saddlescope.setting.plain import describe
from saddlescope.transformer._metrics import load_metrics
from saddlescope.transformer._training import recorded_steps


@part("experiment")
class AbstractExperiment(abc.ABC):
    """Decoders that are trained alike, and what is measured of them.

    - `seeds`: how many, or which: 3 or 4,7.
    - `layers`: the depth of the decoder, or its depths.
    - `heads`: the heads of a layer.
    - `d_model`: the width of the residual stream.
    - `steps`: how many steps are taken.
    - `learning_rate`: that of AdamW.
    - `weight_decay`: AdamW's decay of every weight.
    - `betas`: the decay of AdamW's two moments.
    - `warmup`: steps over which the learning rate rises.
    - `record`: how many steps are measured, or which.
    """

    seeds: tuple[int, ...]
    steps: int
    record: tuple[int, ...]

    @abc.abstractmethod
    def run(self, folder: str | Path | None = None, progress: Report | None = None) -> xr.Dataset:
        """Train and measure; with a `folder`, what is finished survives there."""

    def inputs(self) -> str:
        """What names the data that comes from outside."""
        return ""

    def written(self) -> dict[str, object]:
        """The fields, seeds from 0 on and even records by their number."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        if self.seeds == tuple(range(len(self.seeds))):
            fields["seeds"] = len(self.seeds)
        points = len(self.record)
        if points > 1 and np.array_equal(recorded_steps(self.steps, points), self.record):
            fields["record"] = points
        return fields

    def setting(self) -> str:
        """What names the experiment, as JSON."""
        return json.dumps(describe(self), sort_keys=True)

    def load(self, path: Path) -> xr.Dataset:
        """The metrics in a file, if they are this experiment's."""
        found = load_metrics(path, self.setting())
        if found.attrs.get("inputs", "") != self.inputs():
            raise CannotRead(f"{str(path)!r}: is of another text; remove it or name another folder")
        return found
