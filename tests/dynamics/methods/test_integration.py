"""Segments of gradient flow: budgets, records by interpolation, and going on."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods import _integration
from saddlescope.dynamics.methods._integration import FlowState

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)


def make_job(flow: ss.GradientFlow, record: Any = None, time_start: float = 0.0) -> Job:
    record = ss.Record(points=200) if record is None else record
    parts = {"init": ss.RandomStart(0.1), "record": record, "seeds": 3}
    return Job(ss.Setting(MODEL, TASK, flow, **parts), time_start)  # type: ignore[arg-type]


def finish(job: Job, state: Any) -> FlowState:
    state, _ = job.setting.method.advance(job.problem, state, 10**6)
    assert isinstance(state, FlowState)
    assert not np.asarray(state.records.active(job.problem)).any()
    return state


def test_the_first_slope_is_the_velocity_at_the_start() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        state: Any = job.begin()
        velocity = jax.vmap(lambda vector: job.problem.velocity(vector))(state.solver.weights)
        np.testing.assert_allclose(state.solver.slope, velocity, rtol=1e-13)
        assert (np.asarray(state.solver.time) == 0.0).all()
        assert (np.asarray(state.solver.step_end) > 0.0).all()


def test_segments_of_any_length_make_one_path() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        whole, taken = job.setting.method.advance(job.problem, job.begin(), 60)
        assert taken == 60
        state: Any = job.begin()
        for budget in (1, 9, 50):
            state, taken = job.setting.method.advance(job.problem, state, budget)
            assert taken == budget
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)
        assert (np.diff(np.asarray(state.solver.time)) != 0).any(), "each seed has its own steps"


def test_records_are_where_the_grid_is_and_not_where_the_steps_are() -> None:
    """Interpolated records lie on the path within what the tolerances allow of it."""
    with jax.enable_x64(True):
        state = finish(*_begun(ss.GradientFlow(until=2000)))
        finer = finish(*_begun(ss.GradientFlow(until=2000, rtol=1e-11, atol=1e-14)))
    assert np.asarray(state.records.index).tolist() == [200] * 3
    assert np.isfinite(np.asarray(state.records.path)).all()
    # Local errors of 1e-8 of weights below 2, accumulated along a staircase: measured 1e-6.
    np.testing.assert_allclose(state.records.path, finer.records.path, atol=5e-6)
    assert np.abs(np.asarray(state.records.path - finer.records.path)).max() > 0


def _begun(flow: ss.GradientFlow) -> tuple[Job, Any]:
    job = make_job(flow)
    return job, job.begin()


def test_a_finished_flow_goes_on_as_if_it_had_never_stopped() -> None:
    with jax.enable_x64(True):
        first = make_job(ss.GradientFlow(until=1000))
        ended = finish(first, first.begin())
        # The step that crossed the end was not taken.
        assert (np.asarray(ended.solver.time) < 1000).all()
        assert (np.asarray(ended.solver.step_end) > 1000).all()
        rest = make_job(ss.GradientFlow(until=2000), time_start=1000.0)
        prolonged = _integration.prolong(rest.problem, ended)
        assert np.asarray(prolonged.records.index).tolist() == [1] * 3
        second = finish(rest, prolonged)
        through = make_job(ss.GradientFlow(until=2000))
        whole = finish(through, through.begin())
        np.testing.assert_array_equal(second.records.last, whole.records.last)


def test_a_seed_without_a_step_to_take_fails_and_the_others_go_on() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        begun: Any = job.begin()
        scale = jnp.asarray([1.0, 1e45, 1.0])[:, None]
        state = finish(job, job.setting.method.begin(job.problem, begun.solver.weights * scale))
    assert np.asarray(state.records.failed).tolist() == [False, True, False]
    assert np.asarray(state.records.index).tolist() == [200, 1, 200]
    assert "no step was small enough at time 0" in job.setting.method.failure(job.problem, state, 1)
