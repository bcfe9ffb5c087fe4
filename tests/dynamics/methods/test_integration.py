"""Segments of gradient flow: budgets, interpolated records, and continued runs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods import _integration
from saddlescope.dynamics.methods._integration import FlowState
from saddlescope.running import programs

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)


def make_job(flow: ss.GradientFlow, record: Any = None, time_start: float = 0.0) -> Job:
    record = ss.Record(points=200) if record is None else record
    parts = {"init": ss.RandomStart(0.1), "record": record, "seeds": 3}
    return Job(ss.Setting(MODEL, TASK, flow, **parts), time_start)  # type: ignore[arg-type]


def finish(job: Job, state: Any) -> FlowState:
    state, _ = job.setting.method.advance(job.prepared.problem, state, 10**6)
    assert isinstance(state, FlowState)
    assert not np.asarray(state.records.active(job.prepared.problem)).any()
    return state


def test_the_first_slope_is_the_velocity_at_the_start() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        state: Any = job.begin()[0]
        velocity = jax.vmap(lambda vector: job.prepared.problem.velocity(vector))(
            state.solver.weights
        )
        np.testing.assert_allclose(state.solver.slope, velocity, rtol=1e-13)
        assert (np.asarray(state.solver.time) == 0.0).all()
        assert (np.asarray(state.solver.step_end) > 0.0).all()


def test_segments_of_any_length_make_one_path() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        whole, taken = job.setting.method.advance(job.prepared.problem, job.begin()[0], 60)
        assert taken == 60
        state: Any = job.begin()[0]
        for budget in (1, 9, 50):
            state, taken = job.setting.method.advance(job.prepared.problem, state, budget)
            assert taken == budget
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)
        assert (np.diff(np.asarray(state.solver.time)) != 0).any(), "each seed has its own steps"


def test_a_second_segment_takes_the_program_of_the_first() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        state, _ = job.setting.method.advance(job.prepared.problem, job.begin()[0], 5)
        before = programs._count
        job.setting.method.advance(job.prepared.problem, state, 5)
    assert programs._count == before


def test_records_are_where_the_grid_is_and_not_where_the_steps_are() -> None:
    """Interpolated records lie on the path to within the tolerances."""
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
    return job, job.begin()[0]


def test_a_finished_flow_continues_as_if_it_had_never_stopped() -> None:
    with jax.enable_x64(True):
        first = make_job(ss.GradientFlow(until=1000))
        ended = finish(first, first.begin()[0])
        # The step that crossed the end was not taken.
        assert (np.asarray(ended.solver.time) < 1000).all()
        assert (np.asarray(ended.solver.step_end) > 1000).all()
        rest = make_job(ss.GradientFlow(until=2000), time_start=1000.0)
        prolonged = _integration.prolong(rest.prepared.problem, ended)
        assert np.asarray(prolonged.records.index).tolist() == [1] * 3
        second = finish(rest, prolonged)
        through = make_job(ss.GradientFlow(until=2000))
        whole = finish(through, through.begin()[0])
        np.testing.assert_array_equal(second.records.last, whole.records.last)


def test_a_seed_without_a_small_enough_step_fails_and_the_others_finish() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        begun: Any = job.begin()[0]
        scale = jnp.asarray([1.0, 1e45, 1.0])[:, None]
        state = finish(job, job.rows.begin(np.asarray(begun.solver.weights * scale))[0])
    assert np.asarray(state.records.failed).tolist() == [False, True, False]
    assert np.asarray(state.records.index).tolist() == [200, 1, 200]
    (message,) = job.setting.method.failures(
        job.prepared.problem, state, np.array([1]), begun.solver.weights[1:2]
    )
    assert "no step was small enough at time 0" in message


def test_a_seed_whose_heads_cancel_beyond_rounding_fails_and_the_others_go_on() -> None:
    """Its force is all rounding, so that no method can take a step of any length."""
    task = ss.InContextRegression([1e8, 1.0], context_length=31)
    method, record = ss.GradientFlow(until=1e9), ss.Record(points=3, weights=False)
    run = ss.train(
        ss.SeparateAttention(2), task, method=method, init_scale=0.1, seeds=2, record=record
    )
    assert [outcome.result for outcome in run.outcomes] == ["finished", "diverged"]
    assert "steps got no further than time" in run.outcomes[1].message
    assert "try a smaller init_scale or until" in run.outcomes[1].message


# Long rests: drops at about 1/w, in a run to 600/w.
LONG = {"init": ss.RandomStart(1e-3), "record": ss.Record(points=300), "seeds": 2}


def long_job(solver: str = "auto", until: float = 600_000.0) -> Job:
    return Job(ss.Setting(MODEL, TASK, ss.GradientFlow(until, solver=solver), **LONG))  # type: ignore[arg-type]


def run_to_end(job: Job, budget: int) -> Any:
    state: Any = job.begin()[0]
    while not job.is_finished((state,)):
        state, _ = job.setting.method.advance(job.prepared.problem, state, budget)
    return state


def test_a_long_rest_is_left_to_the_stiff_method_and_the_path_is_the_same() -> None:
    with jax.enable_x64(True):
        explicit = run_to_end(long_job("explicit"), 10**6)
        chosen = run_to_end(long_job(), 10**6)
        stiff = run_to_end(long_job("stiff"), 10**6)
    assert not np.asarray(explicit.solver.is_stiff).any()
    assert np.asarray(chosen.solver.is_stiff).all()
    for other in (chosen, stiff):
        np.testing.assert_allclose(other.records.loss, explicit.records.loss, atol=1e-7)


def test_segments_of_any_length_make_one_path_across_both_methods() -> None:
    with jax.enable_x64(True):
        states = [run_to_end(long_job(), budget) for budget in (10**6, 700)]
        for one, other in zip(*map(jax.tree.leaves, states), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_short_run_stays_explicit() -> None:
    with jax.enable_x64(True):
        state = run_to_end(long_job(until=3000.0), 10**6)
    assert not np.asarray(state.solver.is_stiff).any()


def test_the_stiff_method_agrees_with_lsoda() -> None:
    with jax.enable_x64(True):
        job = long_job("stiff")
        state = run_to_end(job, 10**6)
        field = jax.jit(lambda y: job.prepared.problem.velocity(y, job.prepared.problem.pace))
        start = np.asarray(job.begin()[0].records.last)  # type: ignore[attr-defined]
        for seed in range(2):
            reference = scipy.integrate.solve_ivp(
                lambda t, y: np.asarray(field(y)),
                (0.0, job.prepared.grid[-1]),
                start[seed],
                method="LSODA",
                t_eval=job.prepared.grid,
                rtol=1e-10,
                atol=1e-13,
            ).y
            losses = jax.vmap(job.prepared.problem.loss)(jnp.asarray(reference.T))
            np.testing.assert_allclose(state.records.loss[seed], losses, atol=1e-6)


@pytest.mark.parametrize("solver", ["explicit", "stiff"])
def test_convergence_is_noticed_between_records(solver: str) -> None:
    """With two records alone it would be noticed at the end; the seed rests long before."""
    flow = ss.GradientFlow(until=1e6, converged=1e-3, solver=solver)
    with jax.enable_x64(True):
        job = make_job(flow, ss.Record(points=2))
        state = run_to_end(job, 10**6)
    assert np.asarray(state.records.converged).all()
    assert (np.asarray(state.solver.time) < 1e4).all()
    assert (np.asarray(state.records.loss[:, 1]) <= float(job.prepared.problem.threshold)).all()


def test_the_power_method_finds_the_largest_rate_as_it_goes() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientFlow(until=2000))
        state = finish(job, job.begin()[0])
        jacobian_at = jax.jit(jax.jacfwd(job.prepared.problem.velocity))
        for row in range(3):
            at = state.records.last[row]
            jacobian = np.asarray(jacobian_at(at))
            rate = np.abs(np.linalg.eigvalsh(jacobian)).max()
            term = _integration._equation(job.prepared.problem)
            slope = job.prepared.problem.velocity(at)
            _, estimate = _integration._power_iteration(term, at, slope, state.solver.dominant[row])
            # The finite difference displaces weights by 1e-5 of their norm.
            assert float(estimate) == pytest.approx(rate, rel=1e-4)


def test_without_a_direction_there_is_no_rate() -> None:
    with jax.enable_x64(True):
        problem = make_job(ss.GradientFlow(until=2000)).prepared.problem
        zero = jnp.zeros(problem.layout.size)
        term = _integration._equation(problem)
        direction, rate = _integration._power_iteration(term, zero, zero, zero)
        assert float(rate) == 0.0
        assert not np.asarray(direction).any()


@pytest.mark.parametrize("solver", ["explicit", "stiff"])
def test_a_rounding_at_the_start_stays_one(solver: str) -> None:
    """Through drops and rests: no step size depends on rounding, so other machines agree."""
    flow, start = ss.GradientFlow(4000.0, solver=solver), ss.RandomStart(0.1)
    weights = start.ensemble(MODEL, TASK, np.arange(3))
    rounded = {name: np.nextafter(array, 1.0) for name, array in weights.items()}
    one, other = (
        ss.train(MODEL, TASK, method=flow, weights=at, record=200) for at in (weights, rounded)
    )
    # Measured: 2e-14, and 3e-8 if step sizes depend on rounding.
    for name in ("loss", "v", "k", "q"):
        np.testing.assert_allclose(one.dataset[name], other.dataset[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("scale", "until"), [(1e3, 50.0), (1e6, 1e-3)])
def test_a_step_to_nan_is_shortened(scale: float, until: float) -> None:
    run = ss.train(MODEL, TASK, method=ss.GradientFlow(until), init_scale=scale, seeds=3, record=5)
    assert run.outcomes.are(ss.Result.FINISHED).all()


def test_a_seed_that_gets_no_further_says_why() -> None:
    small = ss.train(MODEL, TASK, method=ss.GradientFlow(1e15), init_scale=1e-14, seeds=3, record=5)
    assert small.outcomes.are(ss.Result.DIVERGED).all()
    assert "resolves no shorter step there" in small.outcomes[0].message
    large = ss.train(MODEL, TASK, method=ss.GradientFlow(1.0), init_scale=1e30, seeds=3, record=5)
    messages = [outcome.message for outcome in large.outcomes if outcome.message]
    assert messages
    assert all("try a smaller init_scale" in message for message in messages)
