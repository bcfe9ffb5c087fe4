"""The results of a prepared setting, complete or not, from the state of its seeds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.arrays import Weights
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics._derived import derive
from saddlescope.dynamics._evaluate import evaluate_path
from saddlescope.dynamics._prepared import Prepared, as_linear
from saddlescope.dynamics._summary import RunSummary, Summary, last_losses
from saddlescope.dynamics.methods._problem import AbstractState, Records
from saddlescope.precision import in_own_precision
from saddlescope.trajectory import Outcomes, Result, Trajectory, assemble

# Failed seeds whose starts are examined for a cure.
_SEEDS_FOR_CURE = 8
# The message where finding out more would take programs for one shape alone.
_DIVERGED = "diverged; try a smaller learning rate, or a smaller init_scale"


@in_own_precision
def trajectory(prepared: Prepared, state: AbstractState) -> Trajectory:
    """The trajectory so far."""
    setting = prepared.setting
    ended = outcomes(prepared, state, prepared.seeds)
    records = jax.tree.map(np.asarray, state.records)
    interrupted = ended.are(Result.INTERRUPTED)
    finite = _finite_records(records)
    points = int(finite[interrupted].min() if interrupted.any() else max(finite.max(), 1))
    loss = losses(prepared, records, points)
    recorded: Weights = {}
    final: Weights = {}
    if setting.record.weights:
        recorded = _named_weights(prepared, _first_points(records, records.path, points))
        layout, gain = prepared.moving.whole, prepared.problem.risk.gain
        derived = derive(setting.model, layout, recorded, gain, prepared.record_shape)
        recorded |= derived | _test_losses(prepared, recorded)
    elif records.notes is None:
        final = _named_weights(prepared, records.last)
    clock = prepared.grid[:points]
    dataset = assemble(setting, clock, prepared.flow_time(clock), loss, recorded, final)
    noted = summary(prepared, records, ended)
    if noted is not None:
        dataset = dataset.assign(noted.dataset(setting))
    dataset.attrs |= setting.method.about(prepared.kernel, state)
    # A finished run that kept only a summary needs no state.
    kept = state if interrupted.any() else None if records.notes else state.with_points(0)
    leaves = tuple(jax.tree.leaves(kept))
    return Trajectory(dataset, setting, ended, leaves, prepared.time_start)


@in_own_precision
def run_summary(prepared: Prepared, state: AbstractState) -> RunSummary:
    """The summary so far; the state may be padded."""
    ended, records = outcomes(prepared, state, prepared.seeds), state.records
    loss = np.asarray(records.loss)[:, : len(prepared.grid)]
    return RunSummary(ended, loss[:, 0], last_losses(loss), summary(prepared, records, ended))


@in_own_precision
def outcomes(prepared: Prepared, state: AbstractState, seeds: AnyArray) -> Outcomes:
    """How each of these seeds, to which the state belongs, has ended so far."""
    records = state.records
    failed = np.flatnonzero(records.failed)
    messages: list[str] = []
    if prepared.record_shape is not None:
        messages = [_DIVERGED] * failed.size
    elif failed.size:
        starts = jnp.asarray(prepared.starts(seeds[failed[:_SEEDS_FOR_CURE]]))
        messages = prepared.setting.method.failures(prepared.problem, state, failed, starts)
    finished = np.asarray(records.index) >= len(prepared.grid)
    ended: dict[Result, AnyArray] = {
        Result.DIVERGED: np.asarray(records.failed),
        Result.CONVERGED: np.asarray(records.converged),
        Result.FINISHED: finished,
        Result.INTERRUPTED: ~finished,
    }
    return Outcomes.by_result(ended, dict(zip(failed.tolist(), messages, strict=True)))


def losses(prepared: Prepared, records: Records, points: int) -> FloatArray:
    """The losses at the first points of the grid, [S, P]."""
    return _first_points(records, np.asarray(records.loss), points)


def summary(prepared: Prepared, records: Records, ended: Outcomes) -> Summary | None:
    """The events noted so far, if any are; marks crossed before the start have no time."""
    notes = records.notes
    if notes is None:
        return None
    marks = prepared.problem.marks
    assert marks is not None
    # Padded rows have more marks.
    middles, halves = marks.middles.shape[-1], marks.halves.shape[-1]
    # A flow's last step goes beyond its end.
    drops, learned = (
        np.where(times <= prepared.grid[-1], times, np.nan)
        for times in (notes.drops[:, :middles], notes.learned[:, :halves])
    )
    reached = np.hstack([np.full((len(drops), 1), True), ~np.isnan(drops)])
    levels = np.where(reached, notes.levels[:, : middles + 1], np.nan)
    drops, learned = (
        prepared.flow_time(np.where(np.isfinite(times), times, np.nan))
        for times in (drops, learned)
    )
    if halves:
        # Directions without power are never learned.
        missing = prepared.moving.whole.dimension - halves
        learned = np.pad(learned, ((0, 0), (0, missing)), constant_values=np.nan)
    return Summary.of(drops, levels, learned, ended.are(Result.DIVERGED))


def _test_losses(prepared: Prepared, weights: Weights) -> Weights:
    """The loss at every record on each of the task's test laws."""
    task, model = prepared.setting.task, prepared.setting.model
    tests = task.tests() if model.is_linear else {}
    return {
        f"loss_{name}": evaluate_path(model, test, weights, prepared.record_shape)
        for name, test in tests.items()
    }


def _named_weights(prepared: Prepared, vectors: FloatArray) -> Weights:
    """All weights of all seeds, in the user's coordinates, from flat vectors of those that move."""
    if not prepared.moving.is_all:
        vectors = prepared.moving.put_back(vectors, prepared.all_starts(prepared.seeds))
    weights = prepared.moving.whole.unpack(vectors)
    if prepared.basis is None:
        return weights
    basis = prepared.basis.T.astype(vectors.dtype)
    return as_linear(prepared.setting.model).rotate(weights, basis)


def _finite_records(records: Records) -> AnyArray:
    """The number of finite records of each seed: those before it failed, [S]."""
    return np.isfinite(records.loss).sum(axis=1)


def _first_points(records: Records, kept: FloatArray, points: int) -> FloatArray:
    """A copy of the records at the first points of the grid, [S, P, …].

    A converged seed repeats its last record; a diverged one has NaN after it.
    """
    finite, converged = _finite_records(records)[:, None], np.asarray(records.converged)[:, None]
    if (finite >= points).all():
        return kept[:, :points].copy()
    index = np.minimum(np.arange(points), finite - 1)
    known = converged | (np.arange(points) < finite)
    across = (..., *[None] * (kept.ndim - 2))
    return np.where(known[across], np.take_along_axis(kept, index[across], axis=1), np.nan)
