"""A setting made ready: its loss, its grid and its starts, and the result of a state."""

from __future__ import annotations

import math
from copy import copy
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.arrays import Array, Weights
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.attention.starts import check_weights_fit
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics._evaluate import evaluate_path
from saddlescope.dynamics._frame import RecordShape
from saddlescope.dynamics._moving import Moving
from saddlescope.dynamics._summarise import half_learned, plateau_levels
from saddlescope.dynamics._summary import RunSummary, Summary, last_losses
from saddlescope.dynamics.kernels.choice import choose_kernel
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_own_precision, to_numpy, with_float64, within
from saddlescope.risk import AbstractMapRisk, AbstractRisk
from saddlescope.running.cores import on_all_cores
from saddlescope.running.memory import check_memory
from saddlescope.running.programs import compiled
from saddlescope.setting import Setting
from saddlescope.task.samplers import AbstractSampler
from saddlescope.trajectory import Outcomes, Result, Trajectory, assemble

# The records are held by the compiled loop, copied at a segment border, and once more as results.
_RECORD_COPIES, _GRID_COPIES, _BATCH_COPIES = 3, 4, 3
# Failed seeds whose starts are looked at for a cure.
_SEEDS_FOR_CURE = 8
# Seeds whose starts are drawn at once, in memory that is used again for the next ones.
_STARTS_TOGETHER = 2**13
# What is said of a failed seed whose shape nothing is compiled for.
_DIVERGED = "diverged; try a smaller learning rate, or a smaller init_scale"
# Prompts on which the loss is recorded where it is not known exactly.
_PROBES = 4096


class Prepared:
    """One setting with its risk, its grid and its coordinates, in the precision of its method.

    It begins at flow time `time_start`.
    """

    @with_float64
    def __init__(self, setting: Setting, time_start: float = 0.0) -> None:
        model, method, task = setting.model, setting.method, setting.task
        self.setting = setting
        self.time_start = time_start
        self.record_shape: RecordShape | None = None
        """Where records are worked on in a larger shape."""
        clock_start = 0.0 if method.counts_steps else time_start
        if method.end <= clock_start:
            raise InvalidInput("until", method.end, f"the run begins at time {clock_start:g}")
        self.together = setting.record.together(len(setting.seeds))
        """How many seeds are carried out at once."""
        _check_memory(setting, Layout.of(model, task.dimension), self.together)
        # Stochastic steps need no exact loss: without one it is recorded on probe prompts.
        probing = method.is_stochastic and not model.has_exact_loss
        objective = model.objective(task.probes(_PROBES) if probing else task)
        self.basis = objective.basis
        self.moving, risk = Moving.of(setting, objective.risk)
        layout = self.moving.layout
        self.grid: AnyArray = setting.record.grid(
            clock_start, method.end, whole=method.counts_steps
        )
        group = group_size(self.together, layout.size, layout.dimension)
        self.kernel = choose_kernel([method], model, risk, layout, self.together)
        """The GPU kernel that carries it out, or the batch that it is in."""
        pace, threshold = 1 / self.time_unit(risk), _threshold(setting, risk)
        marks, sampler = _marks(setting, risk), _sampler(setting)
        # Means are over all weights, as if those that rest were there.
        size = float(self.moving.whole.size)
        numbers = (sampler, risk, self.grid, len(self.grid), size, pace, threshold, marks)
        with within(self.precision):
            # Put there as they are: `jnp.asarray` would compile a program for every shape.
            sampler, risk, grid, points, size, pace, threshold, marks = jax.device_put(numbers)
            self.problem = Problem(
                model=model,
                layout=layout,
                group=group,
                keep_weights=setting.record.weights,
                has_rows=False,
                kernel=self.kernel,
                rule=method.rule(model, layout, group),
                sampler=sampler,
                risk=risk,
                grid=grid,
                points=points,
                size=size,
                pace=pace,
                threshold=threshold,
                marks=None if marks is None else Marks(*marks),
            )

    def restarted(self, setting: Setting) -> Prepared:
        """The same for a setting of the same parts, which differs in its start or its seeds."""
        together = setting.record.together(len(setting.seeds))
        _check_memory(setting, self.moving.whole, together)
        other = copy(self)
        other.setting, other.together = setting, together
        return other

    @property
    def precision(self) -> str:
        """What is computed in."""
        return self.setting.method.precision

    def time_unit(self, risk: AbstractRisk) -> float:
        """Units of flow time in one unit of the model's own time."""
        return self.setting.model.time_unit(float(risk.gain))

    @property
    def seeds(self) -> AnyArray:
        """The number of each seed, [S]."""
        return np.array(self.setting.seeds)

    def starts(self, seeds: AnyArray) -> FloatArray:
        """The initial weights of seeds that may move, flat, in the coordinates of the risk."""
        return self.moving.pick(self._all_starts(seeds))

    def _all_starts(self, seeds: AnyArray) -> FloatArray:
        """The initial weights of seeds, flat and in the coordinates of the risk, [S, n]."""
        setting = self.setting
        vectors = np.empty((len(seeds), self.moving.whole.size))

        def fill(first: int) -> None:
            own = slice(first, first + _STARTS_TOGETHER)
            weights = setting.init.ensemble(setting.model, setting.task, seeds[own])
            if self.basis is not None:
                weights = _linear(setting.model).rotate(weights, self.basis)
            vectors[own] = self.moving.whole.pack(weights)

        on_all_cores(fill, range(0, len(seeds), _STARTS_TOGETHER))
        return vectors

    @in_own_precision
    def result(self, state: AbstractState) -> Trajectory:
        """What has come of it so far, from the state of all its seeds."""
        setting = self.setting
        outcomes = self.outcomes(state, self.seeds)
        records = jax.tree.map(np.asarray, state.records)
        going_on = outcomes.are(Result.INTERRUPTED)
        sound = _sound(records)
        points = int(sound[going_on].min() if going_on.any() else max(sound.max(), 1))
        loss = self.losses(records, points)
        recorded: Weights = {}
        final: Weights = {}
        if setting.record.weights:
            recorded = self._name(_recorded(records, records.path, points))
            recorded |= self._derived(recorded) | self._test_losses(recorded)
        elif records.notes is None:
            final = self._name(records.last)
        clock = self.grid[:points]
        dataset = assemble(setting, clock, self.flow_time(clock), loss, recorded, final)
        summary = self.summary(records, outcomes)
        if summary is not None:
            dataset = dataset.assign(summary.dataset(setting))
        dataset.attrs |= setting.method.about(self.kernel, state)
        # Of a run that kept a few numbers alone, no more than these is left when it has ended.
        kept = state if going_on.any() else None if records.notes else state.with_points(0)
        leaves = tuple(jax.tree.leaves(kept))
        return Trajectory(dataset, setting, outcomes, leaves, self.time_start)

    @in_own_precision
    def brief(self, state: AbstractState) -> RunSummary:
        """The few numbers of it so far, from the state of its rows, which may be padded."""
        outcomes, records = self.outcomes(state, self.seeds), state.records
        loss = np.asarray(records.loss)[:, : len(self.grid)]
        return RunSummary(outcomes, loss[:, 0], last_losses(loss), self.summary(records, outcomes))

    def losses(self, records: Records, points: int) -> FloatArray:
        """The losses at the first points of the grid, [S, P]."""
        return _recorded(records, np.asarray(records.loss), points)

    def flow_time(self, clock: AnyArray) -> FloatArray:
        """Flow time from the method's clock."""
        method = self.setting.method
        offset = self.time_start if method.counts_steps else 0.0
        return offset + method.flow_time(clock, self.time_unit(self.problem.risk))

    def summary(self, records: Records, outcomes: Outcomes) -> Summary | None:
        """What was noted on the way, if anything; a mark passed at the start has no time."""
        notes = records.notes
        if notes is None:
            return None
        marks = self.problem.marks
        assert marks is not None
        # Rows that were padded have more of them.
        middles, halves = marks.middles.shape[-1], marks.halves.shape[-1]
        # The last step of a flow goes beyond its end.
        drops, learned = (
            np.where(times <= self.grid[-1], times, np.nan)
            for times in (notes.drops[:, :middles], notes.learned[:, :halves])
        )
        reached = np.hstack([np.full((len(drops), 1), True), ~np.isnan(drops)])
        levels = np.where(reached, notes.levels[:, : middles + 1], np.nan)
        drops, learned = (
            self.flow_time(np.where(np.isfinite(times), times, np.nan))
            for times in (drops, learned)
        )
        if halves:
            # What has no power is never learned.
            missing = self.moving.whole.dimension - halves
            learned = np.pad(learned, ((0, 0), (0, missing)), constant_values=np.nan)
        return Summary.of(drops, levels, learned, outcomes.are(Result.DIVERGED))

    def _derived(self, weights: Weights) -> Weights:
        """The effective map and the conserved quantities at every record."""
        model, shape, gain = self.setting.model, self.record_shape, self.problem.risk.gain
        if shape is None:
            return to_numpy(_derive(model, weights, gain))
        larger = to_numpy(_derive(shape.model, shape.enlarge(weights), gain))
        lead = next(iter(weights.values())).shape[:2]
        return {
            name: larger[name][tuple(map(slice, (*lead, *own)))]
            for name, own in _derived_shapes(model, self.moving.whole.shapes)
        }

    def _test_losses(self, weights: Weights) -> Weights:
        """The loss at every record on each law that the task names as a test of it."""
        task, model = self.setting.task, self.setting.model
        tests = task.tests() if model.is_linear else {}
        return {
            f"loss_{name}": evaluate_path(model, test, weights, self.record_shape)
            for name, test in tests.items()
        }

    @in_own_precision
    def outcomes(self, state: AbstractState, seeds: AnyArray) -> Outcomes:
        """How each of these seeds, whose state it is, has ended so far."""
        records = state.records
        failed = np.flatnonzero(records.failed)
        messages: list[str] = []
        if self.record_shape is not None:
            # Where and why would be found by programs for this shape alone.
            messages = [_DIVERGED] * failed.size
        elif failed.size:
            starts = jnp.asarray(self.starts(seeds[failed[:_SEEDS_FOR_CURE]]))
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
        """Flat weights of all seeds, named, in the user's coordinates."""
        if not self.moving.is_all:
            vectors = self.moving.put_back(vectors, self._all_starts(self.seeds))
        weights = self.moving.whole.unpack(vectors)
        if self.basis is None:
            return weights
        basis = self.basis.T.astype(vectors.dtype)
        return _linear(self.setting.model).rotate(weights, basis)


def _sound(records: Records) -> AnyArray:
    """How many records of each seed are sound: all before that at which it failed, [S]."""
    return np.isfinite(records.loss).sum(axis=1)


def _recorded(records: Records, kept: FloatArray, points: int) -> FloatArray:
    """What was kept at the first points of the grid, a copy, [S, P, …].

    A seed that rests repeats its last record; one that diverged has none after it.
    """
    sound, converged = _sound(records)[:, None], np.asarray(records.converged)[:, None]
    if (sound >= points).all():
        return kept[:, :points].copy()
    place = np.minimum(np.arange(points), sound - 1)
    known = converged | (np.arange(points) < sound)
    across = (..., *[None] * (kept.ndim - 2))
    return np.where(known[across], np.take_along_axis(kept, place[across], axis=1), np.nan)


def _linear(model: AbstractAttention) -> AbstractLinearAttention:
    """The model, known to have an effective map."""
    assert isinstance(model, AbstractLinearAttention)
    return model


@compiled
def _derive(model: AbstractAttention, weights: Weights, gain: Array) -> Weights:
    """The effective map and the conserved quantities at every record, [S, T, …]."""
    return jax.vmap(jax.vmap(lambda at: _derive_one(model, at, gain)))(weights)


def _derive_one(model: AbstractAttention, weights: Weights, gain: Array) -> Weights:
    conserved = model.conserved(weights)
    if not (isinstance(model, AbstractLinearAttention) and model.is_linear):
        return conserved
    return {"effective_map": model.effective_map(weights, gain), **conserved}


@lru_cache(maxsize=256)
def _derived_shapes(
    model: AbstractAttention, shapes: tuple[tuple[str, tuple[int, ...]], ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The shape of each array that is derived from weights, which have these."""
    weights = {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in shapes}
    gain = jax.ShapeDtypeStruct((), np.float64)
    derived = jax.eval_shape(partial(_derive_one, model), weights, gain)
    return tuple((name, array.shape) for name, array in derived.items())


def _marks(setting: Setting, risk: AbstractRisk) -> tuple[FloatArray, FloatArray] | None:
    """The middles and halves to look out for, where drops or quantiles of them are kept."""
    if setting.record.keep == "trajectory":
        return None
    levels = plateau_levels(setting, risk)
    if levels is None:
        if setting.record.keep == "quantiles":
            return None
        raise InvalidInput(
            "record.keep", setting.record.keep, "the levels that it drops to are not known here"
        )
    return (levels[:-1] + levels[1:]) / 2, half_learned(setting, risk)


def _check_memory(setting: Setting, layout: Layout, seeds: int) -> None:
    """Refuse seeds that would not fit together, before anything of them is there."""
    model, points = setting.model, setting.record.most_points
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
    if setting.record.keep == "quantiles":
        # What of them is held and sorted, too.
        return 4
    if not setting.record.weights:
        return 1
    derived = sum(math.prod(own) for _, own in _derived_shapes(setting.model, layout.shapes))
    return 1 + layout.size + derived


def _sampler(setting: Setting) -> AbstractSampler | None:
    if not setting.method.is_stochastic:
        return None
    return setting.task.sampler()


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
