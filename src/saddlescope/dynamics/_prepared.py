"""A setting made ready: its loss, its grid and its starts, and the result of a state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.arrays import Array, Weights
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.attention.starts import check_weights_fit
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics._evaluate import evaluate_path
from saddlescope.dynamics._summary import half_learned, plateau_levels, summary_dataset
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks, Notes
from saddlescope.dynamics.methods._problem import AbstractState, Problem
from saddlescope.errors import InvalidInput
from saddlescope.precision import to_numpy, with_float64
from saddlescope.risk import AbstractMapRisk, AbstractRisk
from saddlescope.running.memory import check_memory
from saddlescope.running.programs import compiled
from saddlescope.setting import Setting
from saddlescope.task.samplers import AbstractSampler
from saddlescope.trajectory import Outcomes, Result, Trajectory, assemble

if TYPE_CHECKING:
    import xarray as xr

# The records are held by the compiled loop, copied at a segment border, and once more as results.
_RECORD_COPIES, _GRID_COPIES, _BATCH_COPIES = 3, 4, 3
# Failed seeds whose starts are looked at for a cure.
_SEEDS_FOR_CURE = 8
# Prompts on which the loss is recorded where it is not known exactly.
_PROBES = 4096


class Prepared:
    """One setting with its risk, its grid and its coordinates, in double precision.

    It begins at flow time `time_start`.
    """

    @with_float64
    def __init__(self, setting: Setting, time_start: float = 0.0) -> None:
        model, method, task = setting.model, setting.method, setting.task
        self.setting = setting
        self.time_start = time_start
        clock_start = 0.0 if method.counts_steps else time_start
        if method.end <= clock_start:
            raise InvalidInput("until", method.end, f"the run begins at time {clock_start:g}")
        layout, seeds = Layout.of(model, task.dimension), len(setting.seeds)
        _check_memory(setting, layout)
        # Stochastic steps need no exact loss: without one it is recorded on probe prompts.
        probing = method.is_stochastic and not model.has_exact_loss
        objective = model.objective(task.probes(_PROBES) if probing else task)
        risk, self.basis = objective.risk, objective.basis
        self.grid: AnyArray = setting.record.grid(
            clock_start, method.end, whole=method.counts_steps
        )
        group = group_size(seeds, layout.size, task.dimension)
        self.problem = Problem(
            model=model,
            layout=layout,
            group=group,
            keep_weights=setting.record.weights,
            has_rows=False,
            rule=method.rule(layout, group),
            sampler=_sampler(setting),
            risk=jax.tree.map(jnp.asarray, risk),
            grid=jnp.asarray(self.grid),
            points=jnp.asarray(len(self.grid)),
            size=jnp.asarray(float(layout.size)),
            pace=jnp.asarray(1 / self.time_unit(risk)),
            threshold=jnp.asarray(_threshold(setting, risk)),
            marks=_marks(setting, risk),
        )

    def time_unit(self, risk: AbstractRisk) -> float:
        """Units of flow time in one unit of the model's own time."""
        return self.setting.model.time_unit(float(risk.gain))

    @property
    def seeds(self) -> AnyArray:
        """The number of each seed, [S]."""
        return np.array(self.setting.seeds)

    def starts(self, seeds: AnyArray) -> FloatArray:
        """The initial weights of seeds, flat and in the coordinates of the risk, [S, n]."""
        setting = self.setting
        weights = setting.init.ensemble(setting.model, setting.task, seeds)
        if self.basis is not None:
            weights = _linear(setting.model).rotate(weights, self.basis)
        vectors: FloatArray = self.problem.layout.pack(weights)
        return vectors

    @with_float64
    def result(self, state: AbstractState) -> Trajectory:
        """What has come of it so far, from the state of all its seeds."""
        setting = self.setting
        outcomes = self._outcomes(state)
        records = jax.tree.map(np.asarray, state.records)
        going_on = outcomes.are(Result.INTERRUPTED)
        # The record at which a seed failed, if there is one, holds nothing; before it all is sound.
        sound = np.isfinite(records.loss).sum(axis=1)
        points = int(sound[going_on].min() if going_on.any() else max(sound.max(), 1))
        # A seed that rests repeats its last record; one that diverged has none after it.
        place = np.minimum(np.arange(points), sound[:, None] - 1)
        known = records.converged[:, None] | (np.arange(points) < sound[:, None])
        loss = np.where(known, np.take_along_axis(records.loss, place, axis=1), np.nan)
        recorded: Weights = {}
        final: Weights = {}
        if setting.record.weights:
            path = np.take_along_axis(records.path, place[:, :, None], axis=1)
            recorded = self._name(np.where(known[:, :, None], path, np.nan))
            derived = to_numpy(_derive(setting.model, recorded, self.problem.risk.gain))
            recorded |= derived | self._test_losses(recorded)
        elif records.notes is None:
            final = self._name(records.last)
        clock = self.grid[:points]
        dataset = assemble(setting, clock, self._flow_time(clock), loss, recorded, final)
        if records.notes is not None:
            diverged = outcomes.are(Result.DIVERGED)
            dataset = dataset.assign(self._summary(records.notes, diverged))
        dataset.attrs |= setting.method.about(state)
        # Of a run that kept a few numbers alone, no more than these is left when it has ended.
        kept = state if going_on.any() else None if records.notes else state.with_points(0)
        leaves = tuple(jax.tree.leaves(kept))
        return Trajectory(dataset, setting, outcomes, leaves, self.time_start)

    def _flow_time(self, clock: AnyArray) -> FloatArray:
        """Flow time from the method's clock."""
        method = self.setting.method
        offset = self.time_start if method.counts_steps else 0.0
        return offset + method.flow_time(clock, self.time_unit(self.problem.risk))

    def _summary(self, notes: Notes, diverged: AnyArray) -> xr.Dataset:
        """What was noted on the way; a mark that was passed at the start has no time."""
        # The last step of a flow goes beyond its end.
        drops, learned = (
            np.where(times <= self.grid[-1], times, np.nan)
            for times in (notes.drops, notes.learned)
        )
        reached = np.hstack([np.full((len(drops), 1), True), ~np.isnan(drops)])
        levels = np.where(reached, notes.levels, np.nan)
        drops, learned = (
            self._flow_time(np.where(np.isfinite(times), times, np.nan))
            for times in (drops, learned)
        )
        return summary_dataset(self.setting, drops, levels, learned, diverged)

    def _test_losses(self, weights: Weights) -> Weights:
        """The loss at every record on each law that the task names as a test of it."""
        task, model = self.setting.task, self.setting.model
        tests = task.tests() if model.is_linear else {}
        return {f"loss_{name}": evaluate_path(model, test, weights) for name, test in tests.items()}

    def _outcomes(self, state: AbstractState) -> Outcomes:
        records = state.records
        failed = np.flatnonzero(records.failed)
        messages: list[str] = []
        if failed.size:
            starts = jnp.asarray(self.starts(self.seeds[failed[:_SEEDS_FOR_CURE]]))
            messages = self.setting.method.failures(self.problem, state, failed, starts)
        finished = np.asarray(records.index) >= len(self.grid)
        ended: dict[Result, AnyArray] = {
            Result.DIVERGED: np.asarray(records.failed),
            Result.CONVERGED: np.asarray(records.converged),
            Result.FINISHED: finished,
            Result.INTERRUPTED: ~finished,
        }
        return Outcomes.by_result(ended, dict(zip(failed.tolist(), messages, strict=True)))

    def _name(self, vectors: FloatArray) -> Weights:
        """Flat weights, named, in the user's coordinates."""
        weights = self.problem.layout.unpack(vectors)
        if self.basis is None:
            return weights
        return _linear(self.setting.model).rotate(weights, self.basis.T)


def _linear(model: AbstractAttention) -> AbstractLinearAttention:
    """The model, known to have an effective map."""
    assert isinstance(model, AbstractLinearAttention)
    return model


@compiled
def _derive(model: AbstractAttention, weights: Weights, gain: Array) -> Weights:
    """The effective map and the conserved quantities at every record, [S, T, …]."""

    def one(at: Weights) -> Weights:
        conserved = model.conserved(at)
        if not (isinstance(model, AbstractLinearAttention) and model.is_linear):
            return conserved
        return {"effective_map": model.effective_map(at, gain), **conserved}

    return jax.vmap(jax.vmap(one))(weights)


def _marks(setting: Setting, risk: AbstractRisk) -> Marks | None:
    """What to look out for where drops alone are kept."""
    if setting.record.keep == "trajectory":
        return None
    levels = plateau_levels(setting, risk)
    if levels is None:
        raise InvalidInput(
            "record.keep", setting.record.keep, "the levels that it drops to are not known here"
        )
    return Marks(
        middles=jnp.asarray((levels[:-1] + levels[1:]) / 2),
        halves=jnp.asarray(half_learned(setting, risk)),
    )


def _check_memory(setting: Setting, layout: Layout) -> None:
    """Refuse what would not fit, before anything of it is there."""
    model, seeds, points = setting.model, len(setting.seeds), setting.record.most_points
    if setting.method.counts_steps:
        points = min(points, int(setting.method.end) + 1)
    sizes = {"seeds": seeds, "record.points": points, "spectrum": layout.dimension}
    sizes |= {name: value for name, value in vars(model).items() if type(value) is int}
    cure = "take fewer seeds, fewer points, no weights, or a smaller model"
    # The grid is as long as was asked for, also where the steps are fewer.
    asked = setting.record.most_points
    check_memory(_GRID_COPIES * asked, {"record.points": asked}, "take fewer points")
    # The weights themselves first: what is derived from them is known only where they have a shape.
    check_weights_fit(model, setting.task, seeds)
    check_memory(_RECORD_COPIES * seeds * points * _numbers_kept(setting, layout), sizes, cure)
    batch = getattr(setting.method, "batch_size", None)
    if batch is not None:
        together = group_size(seeds, layout.size, layout.dimension)
        setting.task.check_prompts(batch, "batch_size", _BATCH_COPIES * together)


def _numbers_kept(setting: Setting, layout: Layout) -> int:
    """How many numbers are kept of each seed at each record."""
    if setting.record.keep == "drops":
        return 3 * (layout.dimension + 1)
    if not setting.record.weights:
        return 1
    derived = jax.eval_shape(
        setting.model.conserved,
        {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in layout.shapes},
    )
    conserved = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(derived))
    return 1 + layout.size + layout.dimension**2 + conserved


def _sampler(setting: Setting) -> AbstractSampler | None:
    if not setting.method.is_stochastic:
        return None
    return jax.tree.map(jnp.asarray, setting.task.sampler())


def _threshold(setting: Setting, risk: AbstractRisk) -> float:
    """The loss at which a seed counts as converged."""
    share, dimension = setting.method.converged, setting.task.dimension
    if share is None:
        return -np.inf
    model = setting.model
    best = risk.best_map(_linear(model).capacity(dimension)) if model.is_linear else None
    if best is None:
        raise InvalidInput(
            "converged", share, "the least loss is not known where heads × rank is below D"
        )
    assert isinstance(risk, AbstractMapRisk)
    least, zero = float(risk.map_loss(best)), float(risk.map_loss(np.zeros_like(best)))
    return least + float(share) * (zero - least)
