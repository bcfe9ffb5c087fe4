"""Segments of steps: budgets, overflow, and the suggested learning rate."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods import _stepping
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._stepping import StepState

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)


def make_job(method: Any, points: int = 200) -> Job:
    parts = {"init": ss.RandomStart(0.1), "record": ss.Record(points=points), "seeds": 3}
    return Job(ss.Setting(MODEL, TASK, method, **parts))  # type: ignore[arg-type]


def minimum(problem: Problem) -> jax.Array:
    best = problem.risk.best_map(2)
    assert best is not None
    return jnp.asarray(problem.layout.pack(MODEL.realise(best)))


@pytest.mark.parametrize("point", ["minimum", "far out"])
def test_the_steepest_curvature_is_the_hessians(point: str) -> None:
    with jax.enable_x64(True):
        problem = make_job(ss.GradientDescent(0.2, 5000)).prepared.problem
        far_out = jnp.linspace(0.5, 1.5, problem.layout.size)
        vector = minimum(problem) if point == "minimum" else far_out
        hessian = np.asarray(jax.jit(jax.hessian(problem.loss))(vector))
        steepest = float(_stepping._steepest_curvature(problem, vector))
    # Two hundred iterations of the power method leave the error that the second eigenvalue's
    # share, its power of 400, has: none here.
    assert steepest == pytest.approx(np.abs(np.linalg.eigvalsh(hessian)).max(), rel=1e-9)


def test_the_stable_rate_is_half_of_the_largest_that_is_stable() -> None:
    """Gradient descent on a quadratic of curvature λ is stable up to the rate 2/λ."""
    with jax.enable_x64(True):
        job = make_job(ss.GradientDescent(0.2, 5000))
        state = job.begin()[0]
        assert isinstance(state, StepState)
        rate = _stepping.stable_rate(job.prepared.problem, state.weights[1:2])
        least = minimum(job.prepared.problem)
        hessian = np.asarray(jax.jit(jax.hessian(job.prepared.problem.loss))(least))
        values, vectors = np.linalg.eigh(hessian)
        assert rate == pytest.approx(1 / values[-1], rel=1e-9)

        def distance_after(rate: float) -> float:
            """From 10⁻⁶ off the minimum along its steepest direction, thirty steps on."""
            vector = least + 1e-6 * vectors[:, -1]
            for _ in range(30):
                vector = vector + job.prepared.problem.velocity(vector, 2 * rate)
            return float(jnp.linalg.norm(vector - least))

        # Each step multiplies the distance by |1 − ηλ|: 0.9 below twice the rate, 1.1 above it.
        assert distance_after(1.9 * rate) == pytest.approx(1e-6 * 0.9**30, rel=0.01)
        assert distance_after(2.1 * rate) == pytest.approx(1e-6 * 1.1**30, rel=0.01)


def test_where_no_curvature_says_more_the_cure_is_half_the_rate() -> None:
    """One head on data: the least loss is not known, and near zero the loss is flat."""
    data = TASK.sample(200)
    model, method = ss.SeparateAttention(heads=1), ss.GradientDescent(5.0, 500)
    run = ss.train(model, data, method=method, init_scale=0.1, record=20)
    (outcome,) = run.outcomes
    assert outcome.result is ss.Result.DIVERGED
    assert outcome.message.endswith("try learning_rate 2.5")


def test_segments_of_any_length_make_one_path() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientDescent(0.2, 5000))
        whole, taken = job.setting.method.advance(job.prepared.problem, job.begin()[0], 1000)
        assert taken == 1000
        state: Any = job.begin()[0]
        for budget in (1, 7, 492, 500):
            state, taken = job.setting.method.advance(job.prepared.problem, state, budget)
            assert taken == budget
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)
    assert np.asarray(state.step).tolist() == [1000] * 3
    # A record is due at every point of the grid that was passed, and at the start.
    assert np.asarray(state.records.index).tolist() == [int((job.prepared.grid <= 1000).sum())] * 3


def test_a_failed_seed_remembers_when_it_was_last_sound() -> None:
    with jax.enable_x64(True):
        job = make_job(ss.GradientDescent(2.0, 500))
        state, _ = job.setting.method.advance(job.prepared.problem, job.begin()[0], 500)
        assert isinstance(state, StepState)
        assert np.asarray(state.records.failed).all()
        overflows = np.asarray(_stepping.overflow_steps(job.prepared.problem, state))
        last = np.asarray(state.step)
        assert (last < overflows).all()
        assert (overflows <= last + int(np.diff(job.prepared.grid).max())).all()
        assert np.isfinite(np.asarray(state.weights)).all()
