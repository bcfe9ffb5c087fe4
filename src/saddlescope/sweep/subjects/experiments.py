"""Experiments with transformers as points: each runs by itself, with all its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray, FloatArray, seed_labels
from saddlescope.dynamics.forecast import Forecast, Frame
from saddlescope.errors import InvalidInput
from saddlescope.running.progress_bar import shown
from saddlescope.setting.nested import flat_fields, replace_fields
from saddlescope.setting.plain import Plain, describe
from saddlescope.sweep.subjects.base import (
    AbstractSubject,
    Column,
    Measure,
    Outcome,
    Status,
)
from saddlescope.transformer import (
    GrokkingExperiment,
    InductionExperiment,
    emergence,
    generalisation_step,
    memorisation_step,
)
from saddlescope.transformer._experiment import AbstractExperiment

if TYPE_CHECKING:
    from saddlescope.sweep.plan import Plan

# Measures of heads are averaged over heads; of these the largest value is taken.
_LARGEST = ("prefix_matching", "copying")
_HEADS = ("layer", "head")
_LANGUAGE = ("loss", "in_context_score", "early_loss", "prefix_matching")
_ARITHMETIC = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
_COURSE = ("qk_effective_rank", "ov_effective_rank", "qk_distance", "ov_distance", "copying")
_STEPS: dict[str, Callable[[xr.Dataset], xr.DataArray]] = {
    "emergence": emergence,
    "memorisation_step": memorisation_step,
    "generalisation_step": generalisation_step,
}
# Seconds on one core per token of a step and per weight, measured on small decoders.
_SECONDS_OF_TOKEN = 3e-10


class Experiments(AbstractSubject[AbstractExperiment]):
    """Points are experiments; rows are their seeds."""

    known: ClassVar[Mapping[str, str]] = {
        **{f"final_{name}": f"{name} at the last step" for name in (*_LANGUAGE, *_ARITHMETIC)},
        **{f"final_{name}": f"{name} at the last step, of all heads" for name in _COURSE},
        **{name: f"{name} at every recorded step" for name in (*_LANGUAGE, *_ARITHMETIC)},
        **{name: f"saddlescope.transformer.{name}" for name in _STEPS},
    }

    def __init__(self, base: AbstractExperiment, keep: Sequence[str | Measure]) -> None:
        self.base = base
        is_language = isinstance(base, InductionExperiment)
        natural = ("final_loss", "final_in_context_score", "emergence")
        arithmetic = ("final_test_accuracy", "generalisation_step")
        self.settle(keep or (natural if is_language else arithmetic))

    @property
    def seeds(self) -> tuple[int, ...]:
        return seed_labels(self.base.seeds)

    def has(self, name: str) -> bool:
        other = _ARITHMETIC if isinstance(self.base, InductionExperiment) else _LANGUAGE
        steps = ("emergence",) if isinstance(self.base, GrokkingExperiment) else tuple(_STEPS)[1:]
        return name in self.known and name.removeprefix("final_") not in (*other, *steps)

    def expand(self, name: str) -> tuple[str, ...]:
        is_course = name in (*_LANGUAGE, *_ARITHMETIC)
        return ("step", name) if is_course else (name,)

    def check_axes(self, names: Sequence[str]) -> None:
        known = [name for name in flat_fields(self.base) if name not in ("seeds", "record")]
        for name in names:
            if name not in known:
                raise InvalidInput(
                    f"axes.{name}", name, f"is no field of the base; there are {', '.join(known)}"
                )
        depths = np.size(getattr(self.base, "layers", 1))
        if depths > 1 and "layers" not in names:
            raise InvalidInput("axes.layers", None, "a point has one depth: name layers as an axis")

    def to_dict(self) -> dict[str, Plain]:
        return describe(self.base)

    def points(self, plan: Plan) -> list[AbstractExperiment]:
        return [self._point(plan, choice) for choice in shown(list(plan.choices()), "checking")]

    def _point(self, plan: Plan, choice: dict[str, int]) -> AbstractExperiment:
        changes = {name: plan.value(name, index) for name, index in choice.items()}
        seeds = plan.seeds or (changes["seeds"],)
        try:
            depths = changes.get("layers")
            if isinstance(depths, Sequence) and not isinstance(depths, str) and len(depths) != 1:
                raise InvalidInput("layers", depths, "a point has one depth")
            return replace_fields(self.base, {**changes, "seeds": seeds})
        except InvalidInput as wrong:
            raise plan.located(wrong, choice) from None

    def with_seeds(self, item: AbstractExperiment, seeds: tuple[int, ...]) -> AbstractExperiment:
        return replace_fields(item, {"seeds": seeds})

    def forecaster(self) -> Callable[[AbstractExperiment], Forecast]:
        return lambda item: Forecast(type(item), _seconds(item), {"points": np.size(item.record)})

    def columns(
        self, items: Sequence[AbstractExperiment], forecasts: Sequence[Forecast]
    ) -> tuple[Column, ...]:
        points = max(one.sizes["points"] for one in forecasts)
        courses = ("step", *_LANGUAGE, *_ARITHMETIC)
        return tuple(
            Column(name, ("record",), (points,)) if name in courses else Column(name)
            for name in self.names
        )

    def frame(self, sizes: Mapping[str, int], rows: int) -> None:
        return None

    def run(self, items: Sequence[AbstractExperiment], frame: Frame | None) -> list[Outcome]:
        return [self._run(item) for item in items]

    def _run(self, item: AbstractExperiment) -> Outcome:
        dataset = item.run()
        alone = dataset.isel(layers=0) if "layers" in dataset.dims else dataset
        seeds = len(seed_labels(item.seeds))
        columns = {name: self._column(name, dataset, alone, seeds) for name in self.names}
        diverged = np.broadcast_to(np.asarray(alone["diverged"], dtype=bool), seeds)
        status = np.where(diverged, Status.DIVERGED, Status.FINISHED).astype(np.int8)
        cure = "its weights are not finite: try a smaller learning_rate"
        reasons = {int(seed): cure for seed in np.flatnonzero(diverged)}
        return Outcome(columns, status, reasons)

    def _column(self, name: str, dataset: xr.Dataset, alone: xr.Dataset, seeds: int) -> FloatArray:
        if name == "step":
            return np.broadcast_to(
                alone["step"].to_numpy().astype(float), (seeds, alone.sizes["step"])
            )
        if name in self.measures:
            return self.measured(name, dataset, seeds)
        if name in _STEPS:
            whole = dataset if name == "emergence" else alone
            return _STEPS[name](whole).to_numpy().astype(np.float64).reshape(seeds)
        found = _reduced(alone[name.removeprefix("final_")])
        return found[:, -1] if name.startswith("final_") else found


def _reduced(values: xr.DataArray) -> AnyArray:
    """Values reduced to (seed, step)."""
    axes = [axis for axis in _HEADS if axis in values.dims]
    if axes:
        values = values.max(axes) if values.name in _LARGEST else values.mean(axes)
    return values.transpose("seed", "step").to_numpy().astype(float)


def _seconds(item: AbstractExperiment) -> float:
    fields = vars(item)
    width, layers = fields["d_model"], int(np.max(fields["layers"]))
    tokens = fields.get("batch_size", 0) * fields.get("context", 0)
    if not tokens:
        tokens = 3 * math.ceil(fields["share"] * fields["p"] ** 2)
    weights = layers * (4 * width**2 + 2 * width * fields.get("d_mlp", 0))
    weights += 2 * width * fields.get("vocabulary", fields.get("p", 0))
    return item.steps * tokens * weights * _SECONDS_OF_TOKEN
