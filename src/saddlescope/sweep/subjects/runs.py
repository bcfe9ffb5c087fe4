"""Settings of linear attention as points: padded to common shapes, summarised in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from saddlescope import measure
from saddlescope.attention import AbstractLinearAttention
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.comparison.drop_times import flow_end, predicted_times
from saddlescope.dynamics import Record, RunSummary, summarise_many, train_many
from saddlescope.dynamics.forecast import Forecast, Forecaster, Frame, frame_of
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.setting import Setting
from saddlescope.setting.fields import fields_of
from saddlescope.setting.nested import flat_fields, replace_fields
from saddlescope.setting.plain import Plain
from saddlescope.sweep.subjects._points import PARTS, Points
from saddlescope.sweep.subjects.base import (
    AbstractSubject,
    Column,
    Measure,
    Outcome,
    Status,
)
from saddlescope.trajectory import Outcomes, Result, Trajectory

if TYPE_CHECKING:
    from saddlescope.sweep.plan import Plan

_SUMMARY = ("drops", "drop_time", "plateau_loss", "learned_time")
_OF_MAP = ("effective_rank", "stable_rank", "participation_ratio")
_STATUS = {
    Result.FINISHED: Status.FINISHED,
    Result.CONVERGED: Status.CONVERGED,
    Result.DIVERGED: Status.DIVERGED,
    Result.INTERRUPTED: Status.FAILED,
}


class Runs(AbstractSubject[Setting]):
    """Points are settings; rows are their seeds."""

    known: ClassVar[Mapping[str, str]] = {
        "final_loss": "the last loss",
        "drops": "the number of drops, that is of stages",
        "drop_time": "when the loss was midway down each drop",
        "predicted_drop_time": "the same, predicted from the initial weights alone (T18)",
        "plateau_loss": "the loss where it changed least before, between and after drops",
        "learned_time": "when each eigenvector had contributed half of what it can",
        "loss": "the loss at every record, with their times",
        "trajectory": "loss, weights and effective map at every record",
        "final_effective_map": "the effective map at the end",
        **{name: f"saddlescope.measure.{name} of the effective map at the end" for name in _OF_MAP},
    }

    def __init__(self, base: Setting, keep: Sequence[str | Measure]) -> None:
        self.base = base
        self.settle(keep or self._natural())
        self._record = self._choose_record()

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.base.seeds

    def has(self, name: str) -> bool:
        tests = self.base.task.tests() if self.base.model.is_linear else {}
        return name in self.known or name in {f"final_loss_{test}" for test in tests}

    def expand(self, name: str) -> tuple[str, ...]:
        if name in ("loss", "trajectory"):
            weights = (*self.base.model.axes, "effective_map") if name == "trajectory" else ()
            return ("time", "loss", *weights)
        return (name,)

    def check_axes(self, names: Sequence[str]) -> None:
        known = [
            *PARTS,
            *(name for part in PARTS for name in flat_fields(getattr(self.base, part))),
        ]
        for name in names:
            # A part of another kind may bring a field of its own.
            brought = any(part in names for part in PARTS)
            if name not in known and (name in fields_of(Record) or not brought):
                raise InvalidInput(
                    f"axes.{name}", name, f"is no field of the base; there are {', '.join(known)}"
                )

    def to_dict(self) -> dict[str, Plain]:
        return self.base.to_dict()

    def points(self, plan: Plan) -> list[Setting]:
        return Points(self.base, self._record, plan).make()

    def with_seeds(self, item: Setting, seeds: tuple[int, ...]) -> Setting:
        return item if item.seeds == seeds else _with(item, seeds)

    def forecaster(self) -> Callable[[Setting], Forecast]:
        forecaster = Forecaster()

        def forecast(item: Setting) -> Forecast:
            try:
                return forecaster.of(item)
            except InvalidInput as wrong:
                if wrong.field != "record.keep":
                    raise
                # The record follows from `keep`, which is what the user wrote.
                names = ", ".join(name for name in self.names if name in _SUMMARY)
                allowed = 'the plateau levels are not known: keep = ["final_loss"] works'
                raise InvalidInput("keep", names, allowed) from None

        return forecast

    def columns(
        self, items: Sequence[Setting], forecasts: Sequence[Forecast]
    ) -> tuple[Column, ...]:
        largest = {
            name: max(one.sizes.get(name, 0) for one in forecasts)
            for name in {name for one in forecasts for name in one.sizes}
        }
        dimension, points = largest["dimension"], largest["points"]
        drops = largest.get("drops", dimension)
        axes = {
            "drop_time": (("drop", drops),),
            "predicted_drop_time": (("drop", drops),),
            "plateau_loss": (("level", drops + 1),),
            "learned_time": (("direction", dimension),),
            "final_effective_map": (("dim", dimension), ("query_dim", dimension)),
            "effective_map": (("record", points), ("dim", dimension), ("query_dim", dimension)),
            "loss": (("record", points),),
            "time": (("record", points),),
        }
        for name, labels in self.base.model.axes.items():
            shapes = [item.model.shapes(item.task.dimension).get(name, ()) for item in items]
            known = [shape for shape in shapes if len(shape) == len(labels)]
            widest = np.max(known, axis=0).tolist() if known and labels else []
            axes[name] = (("record", points), *zip(labels, widest, strict=False))
        return tuple(Column(name, *_split(axes.get(name, ()))) for name in self.names)

    def frame(self, sizes: Mapping[str, int], rows: int) -> Frame:
        return frame_of(sizes, rows)

    def run(self, items: Sequence[Setting], frame: Frame | None) -> list[Outcome]:
        if self._needs_trajectories:
            runs = train_many(items, padded_to=frame)
            found = [self._of_trajectory(run) for run in runs]
            outcomes = [run.outcomes for run in runs]
            initial = [run.loss[:, 0] for run in runs]
        else:
            briefs = summarise_many(items, padded_to=frame)
            found = [self._of_summary(brief) for brief in briefs]
            outcomes = [brief.outcomes for brief in briefs]
            initial = [brief.initial_loss for brief in briefs]
        if "predicted_drop_time" in self.names:
            for own, times in zip(found, _predicted(items, initial), strict=True):
                own["predicted_drop_time"] = times
        return [
            Outcome(own, _status(ended), ended.messages)
            for own, ended in zip(found, outcomes, strict=True)
        ]

    def _of_summary(self, brief: RunSummary) -> dict[str, FloatArray]:
        columns = {"final_loss": brief.final_loss}
        if brief.summary is not None:
            columns |= {name: getattr(brief.summary, name) for name in _SUMMARY[1:]}
            columns["drops"] = np.isfinite(brief.summary.drop_time).sum(axis=1).astype(float)
        return {name: columns[name] for name in self.names if name in columns}

    def _of_trajectory(self, run: Trajectory) -> dict[str, FloatArray]:
        dataset, summary = run.dataset, run.summary()
        columns: dict[str, FloatArray] = {
            "final_loss": summary["final_loss"].to_numpy(),
            "drops": np.isfinite(summary["drop_time"].to_numpy()).sum(axis=1).astype(float),
            "time": np.broadcast_to(run.time, run.loss.shape),
        }
        columns |= {name: summary[name].to_numpy() for name in _SUMMARY[1:]}
        columns |= {str(name): dataset[name].to_numpy() for name in dataset.data_vars}
        if "effective_map" in dataset:
            final = columns["final_effective_map"] = columns["effective_map"][:, -1]
            sound = np.nan_to_num(final)
            for name in _OF_MAP:
                columns[name] = np.asarray(getattr(measure, name)(sound))
        for name in self.names:
            if name.startswith("final_loss_"):
                columns[name] = columns[name.removeprefix("final_")][:, -1]
            elif name in self.measures:
                columns[name] = self.measured(name, run, len(run.loss))
        return {name: columns[name] for name in self.names if name in columns}

    @property
    def _needs_weights(self) -> bool:
        light = {"final_loss", "predicted_drop_time", "loss", "time", *_SUMMARY} - {"learned_time"}
        return bool(set(self.names) - light)

    @property
    def _needs_trajectories(self) -> bool:
        return self._record.keep == "trajectory" and not set(self.names) <= {
            "final_loss",
            "predicted_drop_time",
        }

    def _natural(self) -> tuple[str, ...]:
        """What is kept by default: drops, where the plateau levels are known."""
        base = self.base
        drops = Record(keep="drops")
        one = Setting(base.model, base.task, base.method, base.init, drops, base.seeds[:1])
        try:
            Forecaster().of(one)
        except InvalidInput:
            return ("final_loss",)
        return ("final_loss", "drop_time", "predicted_drop_time", "drops")

    def _choose_record(self) -> Record:
        """The smallest record that what is kept can be computed from."""
        courses = "loss" in self.names or bool(self.measures)
        noted = {"final_loss", "predicted_drop_time", *_SUMMARY}
        if set(self.names) <= noted and set(self.names) & set(_SUMMARY):
            return Record(keep="drops")
        record = self.base.record
        if record.keep == "quantiles":
            raise InvalidInput("base.record.keep", "quantiles", "a sweep keeps what `keep` names")
        if courses or set(self.names) & set(_SUMMARY):
            return replace_fields(record, {"weights": self._needs_weights, "keep": "trajectory"})
        return Record(points=2, weights=self._needs_weights)


def _with(setting: Setting, seeds: tuple[int, ...]) -> Setting:
    return Setting(setting.model, setting.task, setting.method, setting.init, setting.record, seeds)


def _predicted(items: Sequence[Setting], initial: Sequence[FloatArray]) -> list[FloatArray]:
    """The predicted drop times of all seeds of each setting, grouped by model and task."""
    found: list[FloatArray] = [np.full((len(item.seeds), 1), np.nan) for item in items]
    alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        if item.method.has_flow_time and isinstance(item.model, AbstractLinearAttention):
            alike[id(item.model), id(item.task)].append(place)
    for places in alike.values():
        own = [items[place] for place in places]
        model, task = own[0].model, own[0].task
        starts = [one.init.ensemble(model, task, np.array(one.seeds)) for one in own]
        weights = {name: np.concatenate([one[name] for one in starts]) for name in starts[0]}
        counts = [len(one.seeds) for one in own]
        until = np.repeat([flow_end(one) for one in own], counts)
        losses = np.concatenate([initial[place] for place in places]).astype(float)
        try:
            times = predicted_times(model, task, weights, losses, until)
        except (TheoryDoesNotApply, InvalidInput):
            continue
        for place, part in zip(places, np.split(times, np.cumsum(counts)[:-1]), strict=True):
            found[place] = part
    return found


def _status(outcomes: Outcomes) -> AnyArray:
    codes = np.full(len(outcomes), Status.FAILED, dtype=np.int8)
    for result, status in _STATUS.items():
        codes[outcomes.are(result)] = status
    return codes


def _split(axes: Sequence[tuple[str, int]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tuple(name for name, _ in axes), tuple(size for _, size in axes)
