"""Grokking: modular arithmetic that is memorised first and understood later."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from saddlescope.checks import number, seed_labels, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.running.progress import Report
from saddlescope.setting.kinds import kind
from saddlescope.setting.plain import describe
from saddlescope.transformer._checkpoint import remove_checkpoint
from saddlescope.transformer._decoder import DecoderShape
from saddlescope.transformer._experiment import AbstractExperiment
from saddlescope.transformer._metrics import save_metrics
from saddlescope.transformer._optimiser import AdamW
from saddlescope.transformer._training import fit, recorded_steps
from saddlescope.transformer.sources import ModularArithmetic, Operation


@kind("experiment", "grokking")
@dataclass(frozen=True, init=False)
class GrokkingExperiment(AbstractExperiment):
    """A decoder with MLPs, trained on a share of all pairs at once, with strong weight decay.

    The setting of Nanda et al. 2023 (one layer, ReLU, no LayerNorm, full batch), smaller. The
    defaults grok in about a minute on two cores; `large()` is theirs, `quick()` is for tests. The
    seeds are those of the weights; which pairs are trained on is the same for all of them.

    - `p`: the prime.
    - `share`: the share of the pairs that is trained on.
    - `operation`: `add`, `subtract`, `multiply` or `divide`.
    - `d_mlp`: the width of the MLPs.

    >>> GrokkingExperiment.large().shape().d_mlp
    512
    """

    p: int
    share: float
    operation: Operation
    seeds: tuple[int, ...]
    layers: int
    heads: int
    d_model: int
    d_mlp: int
    steps: int
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    warmup: int
    record: tuple[int, ...]

    def __init__(
        self,
        p: object = 53,
        share: object = 0.5,
        operation: object = Operation.add,
        seeds: object = 1,
        layers: object = 1,
        heads: object = 4,
        d_model: object = 64,
        d_mlp: object = 256,
        steps: object = 2500,
        learning_rate: object = 1e-3,
        weight_decay: object = 1.0,
        betas: object = (0.9, 0.98),
        warmup: object = 10,
        record: object = 101,
    ) -> None:
        source = ModularArithmetic(p, share, operation)
        last = whole_number("steps", steps)
        shape = DecoderShape(source.p + 1, 3, layers, heads, d_model, d_mlp=d_mlp)
        optimiser = AdamW(learning_rate, weight_decay, betas, warmup)
        vars(self).update(
            p=source.p,
            share=source.share,
            operation=source.operation,
            seeds=seed_labels(seeds),
            layers=shape.layers,
            heads=shape.heads,
            d_model=shape.d_model,
            d_mlp=shape.d_mlp,
            steps=last,
            record=tuple(recorded_steps(last, record).tolist()),
            **dataclasses.asdict(optimiser),
        )

    @staticmethod
    def large(**changes: object) -> GrokkingExperiment:
        """Nanda et al.: p = 113, 30 % of the pairs, d_model 128, d_mlp 512; three seeds, a GPU."""
        theirs: dict[str, object] = {"p": 113, "share": 0.3, "d_model": 128, "d_mlp": 512}
        theirs |= {"seeds": 3, "steps": 20_000, "record": 201}
        return GrokkingExperiment(**{**theirs, **changes})

    @staticmethod
    def quick(**changes: object) -> GrokkingExperiment:
        """For tests: a small prime and most of its pairs, in seconds."""
        small: dict[str, object] = {"p": 17, "share": 0.8, "d_model": 32, "d_mlp": 128, "heads": 2}
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
            return self.load(home / "metrics.nc")
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
        found = found.assign_attrs(setting=self.setting(), data=json.dumps(describe(source)))
        if home is not None:
            save_metrics(found, home / "metrics.nc")
            remove_checkpoint(home / "checkpoint")
        return found


def memorisation_step(dataset: object, *, accuracy: object = 0.99) -> xr.DataArray:
    """The first recorded step at which the accuracy in training reaches a level, [seed]; or NaN."""
    return _first(dataset, "train_accuracy", accuracy).rename("memorisation")


def generalisation_step(dataset: object, *, accuracy: object = 0.9) -> xr.DataArray:
    """The first recorded step at which the accuracy in the test reaches a level, [seed]; or NaN."""
    return _first(dataset, "test_accuracy", accuracy).rename("generalisation")


def _first(dataset: object, name: str, accuracy: object) -> xr.DataArray:
    if not isinstance(dataset, xr.Dataset) or name not in dataset:
        raise InvalidInput("dataset", dataset, "must be what GrokkingExperiment.run returns")
    reached = dataset[name] >= number("accuracy", accuracy, above=0)
    return dataset["step"].where(reached).min("step")
