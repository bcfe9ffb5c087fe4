"""Grokking: modular arithmetic, memorised first and generalised later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xarray as xr
from numpy.typing import ArrayLike

from saddlescope.checks import number, validated
from saddlescope.errors import InvalidInput
from saddlescope.running import Checkpoint
from saddlescope.running.files import as_path
from saddlescope.running.parts import Within
from saddlescope.setting.kinds import kind
from saddlescope.setting.nested import replace_fields
from saddlescope.setting.plain import describe
from saddlescope.transformer._decoder import DecoderShape
from saddlescope.transformer._experiment import AbstractExperiment
from saddlescope.transformer.sources import ModularArithmetic, Operation
from saddlescope.transformer.sources.modular import PairSplit


@kind("experiment", "grokking")
@validated
@dataclass(frozen=True)
class GrokkingExperiment(AbstractExperiment):
    """A decoder with MLPs, trained on a share of all pairs at once, with strong weight decay.

    A smaller version of the setting of Nanda et al. 2023 (one layer, ReLU, no LayerNorm, full
    batch). The defaults grok in about a minute on two cores; `large()` is theirs, `quick()` is for
    tests. Seeds determine the weights; all of them train on the same pairs.

    - `p`: the prime.
    - `share`: the share of the pairs to train on.
    - `operation`: `add`, `subtract`, `multiply` or `divide`.
    - `d_mlp`: the width of the MLPs.

    >>> GrokkingExperiment.large().shape().d_mlp
    512
    """

    p: int = 53
    share: float = 0.5
    operation: Operation = Operation.add
    seeds: ArrayLike = 1
    layers: int = 1
    heads: int = 4
    d_model: int = 64
    d_mlp: int = 256
    steps: int = 2500
    learning_rate: float = 1e-3
    weight_decay: float = 1.0
    betas: tuple[float, float] = (0.9, 0.98)
    warmup: int = 10
    cooldown: int = 0
    record: ArrayLike = 101

    def __post_init__(self) -> None:
        self.settle(PairSplit(self.p, self.share, self.operation), self.shape())

    @staticmethod
    def large(**changes: object) -> GrokkingExperiment:
        """Nanda et al.: p = 113, 30 % of the pairs, d_model 128, d_mlp 512; three seeds, a GPU."""
        theirs = GrokkingExperiment(
            113, 0.3, seeds=3, d_model=128, d_mlp=512, steps=20_000, record=201
        )
        return replace_fields(theirs, changes)

    @staticmethod
    def quick(**changes: object) -> GrokkingExperiment:
        """For tests: a small prime and most of its pairs, in seconds."""
        small = GrokkingExperiment(
            17, 0.8, heads=2, d_model=32, d_mlp=128, steps=600, learning_rate=3e-3, record=25
        )
        return replace_fields(small, changes)

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

    def make_source(self) -> ModularArithmetic:
        """All pairs."""
        return ModularArithmetic(self.p, self.share, self.operation)

    def run(self, folder: str | Path | None = None, observers: object = ()) -> xr.Dataset:
        """Train; a dataset over (seed, step, layer, head, frequency, weight).

        With a `folder`, an unfinished training is kept there and the same call resumes it; at the
        end its `metrics.nc` holds everything.
        """
        home = None if folder is None else as_path("folder", folder)
        return self.resumed(partial(self._measured, observers), home)

    def _measured(self, observers: object, checkpoint: Checkpoint | None) -> xr.Dataset:
        source = self.make_source()
        metrics = self.train(self.shape(), source, checkpoint, [Within(observers, 0.0, 1.0)])
        metrics = metrics.assign_coords(frequency=range(1, self.p // 2 + 1))
        return metrics.assign_attrs(data=json.dumps(describe(source)))


def memorisation_step(dataset: object, *, accuracy: object = 0.99) -> xr.DataArray:
    """The first recorded step at which the training accuracy reaches a level, [seed]; or NaN.

    >>> import xarray
    >>> course = {"train_accuracy": (("seed", "step"), [[.2, .95, 1.]])}
    >>> data = xarray.Dataset(course, {"seed": [0], "step": [0, 10, 20]})
    >>> memorisation_step(data).values.tolist()
    [20.0]
    """
    return _first(dataset, "train_accuracy", accuracy).rename("memorisation")


def generalisation_step(dataset: object, *, accuracy: object = 0.9) -> xr.DataArray:
    """The first recorded step at which the test accuracy reaches a level, [seed]; or NaN.

    >>> import xarray
    >>> course = {"test_accuracy": (("seed", "step"), [[.2, .95, 1.]])}
    >>> data = xarray.Dataset(course, {"seed": [0], "step": [0, 10, 20]})
    >>> generalisation_step(data).values.tolist()
    [10.0]
    """
    return _first(dataset, "test_accuracy", accuracy).rename("generalisation")


def _first(dataset: object, name: str, accuracy: object) -> xr.DataArray:
    if not isinstance(dataset, xr.Dataset) or name not in dataset:
        raise InvalidInput("dataset", dataset, "must be what GrokkingExperiment.run returns")
    reached = dataset[name] >= number("accuracy", accuracy, above=0)
    return dataset["step"].where(reached).min("step")
