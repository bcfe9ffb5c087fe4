"""Grokking: modular arithmetic that is memorised first and understood later."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from saddlescope.checks import number, seed_labels, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.running.progress import Report
from saddlescope.transformer.checkpoint import remove_checkpoint
from saddlescope.transformer.decoder import DecoderShape
from saddlescope.transformer.metrics import load_metrics, save_metrics
from saddlescope.transformer.optimiser import AdamW
from saddlescope.transformer.sources import ModularArithmetic
from saddlescope.transformer.training import fit, recorded_steps


@dataclass(frozen=True)
class GrokkingExperiment:
    """A decoder with MLPs, trained on a share of all pairs at once, with strong weight decay.

    The setting of Nanda et al. 2023 (one layer, ReLU, no LayerNorm, full batch), smaller. The
    defaults grok in about a minute on two cores; `large()` is theirs, `quick()` is for tests. The
    seeds are those of the weights; which pairs are trained on is the same for all of them.

    >>> GrokkingExperiment.large().shape().d_mlp
    512
    """

    p: Any = 53
    share: Any = 0.5
    operation: Any = "add"
    seeds: Any = 1
    layers: Any = 1
    heads: Any = 4
    d_model: Any = 64
    d_mlp: Any = 256
    steps: Any = 2500
    learning_rate: Any = 1e-3
    weight_decay: Any = 1.0
    betas: Any = (0.9, 0.98)
    warmup: Any = 10
    record: Any = 101

    def __post_init__(self) -> None:
        source = ModularArithmetic(self.p, self.share, self.operation)
        object.__setattr__(self, "p", source.p)
        object.__setattr__(self, "share", source.share)
        object.__setattr__(self, "seeds", seed_labels(self.seeds))
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        record = recorded_steps(self.steps, self.record)
        object.__setattr__(self, "record", tuple(record.tolist()))
        AdamW(self.learning_rate, self.weight_decay, self.betas, self.warmup)
        object.__setattr__(self, "betas", tuple(self.betas))
        self.shape()

    @staticmethod
    def large(**changes: Any) -> GrokkingExperiment:
        """Nanda et al.: p = 113, 30 % of the pairs, d_model 128, d_mlp 512; three seeds, a GPU."""
        theirs = {"p": 113, "share": 0.3, "d_model": 128, "d_mlp": 512, "seeds": 3}
        return GrokkingExperiment(**{**theirs, "steps": 20_000, "record": 201, **changes})

    @staticmethod
    def quick(**changes: Any) -> GrokkingExperiment:
        """For tests: a small prime and most of its pairs, in seconds."""
        small = {"p": 17, "share": 0.8, "d_model": 32, "d_mlp": 128, "heads": 2}
        small |= {"steps": 600, "record": 25, "learning_rate": 3e-3}
        return GrokkingExperiment(**{**small, **changes})

    def shape(self) -> DecoderShape:
        """The decoder."""
        return DecoderShape(
            vocabulary=self.p + 1,
            context=3,
            layers=self.layers,
            heads=self.heads,
            d_model=self.d_model,
            d_mlp=self.d_mlp,
            outputs=self.p,
        )

    def inputs(self) -> str:
        """What comes from outside: nothing."""
        return ""

    def make_source(self) -> ModularArithmetic:
        """All pairs."""
        return ModularArithmetic(self.p, self.share, self.operation)

    def run(self, folder: str | Path | None = None, progress: Report | None = None) -> xr.Dataset:
        """Train; a dataset over (seed, step, layer, head, frequency, weight).

        With a `folder`, an unfinished training survives there and the same call goes on from it; at
        the end `metrics.nc` holds all.
        """
        home = None if folder is None else Path(folder)
        if home is not None and (home / "metrics.nc").exists():
            return load_metrics(home / "metrics.nc", self.setting())
        source = self.make_source()
        found = fit(
            self.shape(),
            source,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            betas=self.betas,
            warmup=self.warmup,
            seeds=self.seeds,
            record=self.record,
            progress=progress,
            checkpoint=None if home is None else home / "checkpoint",
        ).dataset
        found = found.assign_coords(frequency=range(1, self.p // 2 + 1))
        found = found.assign_attrs(setting=self.setting(), data=json.dumps(source.describe()))
        if home is not None:
            save_metrics(found, home / "metrics.nc")
            remove_checkpoint(home / "checkpoint")
        return found

    def setting(self) -> str:
        """What names the experiment, as JSON."""
        return json.dumps(dataclasses.asdict(self))


def memorisation_step(dataset: Any, *, accuracy: Any = 0.99) -> xr.DataArray:
    """The first recorded step at which the accuracy in training reaches a level, [seed]; or NaN."""
    return _first(dataset, "train_accuracy", accuracy).rename("memorisation")


def generalisation_step(dataset: Any, *, accuracy: Any = 0.9) -> xr.DataArray:
    """The first recorded step at which the accuracy in the test reaches a level, [seed]; or NaN."""
    return _first(dataset, "test_accuracy", accuracy).rename("generalisation")


def _first(dataset: Any, name: str, accuracy: Any) -> xr.DataArray:
    if not isinstance(dataset, xr.Dataset) or name not in dataset:
        raise InvalidInput("dataset", dataset, "must be what GrokkingExperiment.run returns")
    reached = dataset[name] >= number("accuracy", accuracy, above=0)
    return dataset["step"].where(reached).min("step")
