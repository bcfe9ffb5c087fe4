"""A setting made ready: its threshold, its budget, its memory, and what is kept of its seeds."""

from typing import Any

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import _memory, _prepared
from saddlescope.dynamics._job import Job
from saddlescope.errors import CannotRead
from saddlescope.running.observers import Saved

# The shape that other tests train too: compiled once in a process.
TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
DESCENT = ss.GradientDescent(learning_rate=0.2, steps=5000)
POINTS = 200
# T7 at M_0 and at M_2.
ZERO = 0.9
LEAST = 0.9 - sum(value / (1 + (1 + 0.9 / value) / 31) for value in (0.6, 0.3))


def setting(**changes: Any) -> ss.Setting:
    parts = {"method": DESCENT, "init": ss.RandomStart(0.1), "record": ss.Record(points=POINTS)}
    return ss.Setting(MODEL, TASK, **{**parts, "seeds": 3, **changes})


def large_starts(*factors: float) -> dict[str, np.ndarray]:
    """The random starts of three seeds, each so many times as large."""
    weights = ss.RandomStart(0.1).ensemble(MODEL, TASK, np.arange(3))
    scale = np.array(factors)
    return {n: array * scale.reshape(3, *[1] * (array.ndim - 1)) for n, array in weights.items()}


@pytest.mark.parametrize("share", [1e-3, 0.5, 0.9])
def test_convergence_is_a_share_of_what_there_is_to_gain(share: float) -> None:
    with jax.enable_x64(True):
        job = Job(setting(method=ss.GradientFlow(until=2000, converged=share)))
        threshold = float(job.prepared.problem.threshold)
    assert threshold == pytest.approx(LEAST + share * (ZERO - LEAST), rel=1e-12)


def test_without_a_share_nothing_converges() -> None:
    with jax.enable_x64(True):
        assert float(Job(setting()).prepared.problem.threshold) == -np.inf


def test_a_run_ends_with_the_last_sound_record_of_its_seeds() -> None:
    run = ss.train(setting(method=ss.GradientDescent(2.0, 500)))
    assert {outcome.result for outcome in run.outcomes} == {ss.Result.DIVERGED}
    known = np.isfinite(run.loss)
    assert known[:, 0].all()
    assert known[:, -1].any(), "a record at which every seed had failed was kept"
    # A seed has records up to its failure and none after it, of the loss as of the weights.
    assert (np.diff(known.astype(int), axis=1) <= 0).all()
    weights = np.isfinite(run.dataset["k"].to_numpy()).all(axis=(-3, -2, -1))
    np.testing.assert_array_equal(weights, known)


def test_flow_that_cannot_take_a_step_keeps_where_it_began() -> None:
    # The loss of such weights, ~(10⁴⁴)⁶, is a number still; what a step would take is none.
    start = large_starts(1.0, 1e45, 1.0)
    flow = ss.GradientFlow(until=2000)
    run = ss.train(MODEL, TASK, method=flow, weights=start, record=POINTS)
    assert run.outcomes[1].result is ss.Result.DIVERGED
    assert np.isfinite(run.loss[1, 0])
    assert np.isnan(run.loss[1, 1:]).all()
    for name, array in run.weights(seed=1, index=0).items():
        np.testing.assert_array_equal(array, start[name][1])


def test_a_start_whose_loss_overflows_has_no_record_at_all() -> None:
    start = large_starts(1.0, 1e60, 1.0)
    run = ss.train(MODEL, TASK, method=DESCENT, weights=start, record=POINTS)
    assert run.outcomes[1].result is ss.Result.DIVERGED
    assert np.isnan(run.loss[1]).all()
    assert np.isfinite(run.loss[[0, 2]]).all()


def test_the_memory_that_is_asked_for_is_what_is_recorded() -> None:
    run = ss.train(setting())
    layout = Job(run.setting).prepared.problem.layout
    counted = _memory.numbers_kept(run.setting, layout)
    recorded = sum(variable.size for variable in run.dataset.data_vars.values())
    assert counted == recorded / run.loss.size
    lean = setting(record=ss.Record(points=POINTS, weights=False))
    assert _memory.numbers_kept(lean, layout) == 1


def test_a_state_comes_back_from_its_leaves() -> None:
    job = Job(setting())
    state = job.begin()
    saved = job.save(state)
    again = job.restore(saved)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(again), saved.state, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("damage", ["fewer", "other seeds", "other types"])
def test_leaves_that_are_not_this_jobs_are_refused(damage: str) -> None:
    job = Job(setting())
    leaves = job.save(job.begin()).state
    wrong = {
        "fewer": leaves[:-1],
        "other seeds": tuple(leaf[:1] if leaf.ndim else leaf for leaf in leaves),
        "other types": tuple(leaf.astype(np.float32) for leaf in leaves),
    }[damage]
    with pytest.raises(CannotRead, match="not one of this setting's"):
        job.restore(Saved(wrong))


def test_a_job_is_named_by_its_setting_and_where_it_begins() -> None:
    flow = setting(method=ss.GradientFlow(until=2000))
    digests = {Job(flow).digest, Job(flow, 100.0).digest, Job(setting()).digest}
    assert Job(flow).digest in digests
    assert len(digests) == 3


def test_flow_goes_on_exactly_only_at_the_same_tolerances() -> None:
    first = ss.train(setting(method=ss.GradientFlow(until=100)))
    start = ss.GivenStart(first.weights())
    flows = [ss.GradientFlow(until=200), ss.GradientFlow(until=200, rtol=1e-9)]
    jobs = [Job(setting(method=flow, init=start), earlier=first) for flow in flows]
    # The solver is at its last step before the end, or starts again at the end.
    kept, restarted = (np.asarray(job.begin()[0].solver.time) for job in jobs)  # type: ignore[attr-defined]
    assert (kept < 100.0).all()
    assert (restarted == 100.0).all()


def test_an_interrupted_flow_is_continued_from_its_last_common_record() -> None:
    job = Job(setting(method=ss.GradientFlow(until=100)))
    part = job.result(job.advance(job.begin(), 8)[0])
    assert not part.is_complete
    start = ss.GivenStart(part.weights())
    after = Job(setting(method=ss.GradientFlow(until=200), init=start), earlier=part)
    state: Any = after.begin()[0]
    np.testing.assert_array_equal(state.solver.time, np.full(3, part.time[-1]))
    np.testing.assert_allclose(state.records.loss[:, 0], part.loss[:, -1], rtol=1e-12)


def test_seeds_that_fill_up_a_group_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    short = setting(method=ss.GradientDescent(0.2, 50), record=ss.Record(points=5))
    together = ss.train(short)
    monkeypatch.setattr(_prepared, "group_size", lambda *_: 2)
    in_pairs = ss.train(short)
    assert in_pairs.loss.shape == together.loss.shape == (3, 5)
    np.testing.assert_allclose(in_pairs.loss, together.loss, rtol=1e-13)
