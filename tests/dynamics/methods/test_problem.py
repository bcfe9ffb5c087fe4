"""One problem, and its records."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods._problem import Problem, Records

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)


def make_problem(**record: Any) -> Problem:
    method = ss.GradientDescent(0.2, 10)
    record = ss.Record(**{"at": [2.0, 5.0], **record})
    return Job(ss.Setting(MODEL, TASK, method, record=record, seeds=3)).prepared.problem


def vectors(problem: Problem) -> Any:
    """Weights of three seeds, none of them small."""
    return jnp.asarray(np.random.default_rng(0).standard_normal((3, problem.layout.size)))


def test_the_velocity_is_minus_half_the_gradient_times_the_rate() -> None:
    with jax.enable_x64(True):
        problem = make_problem()
        vector = vectors(problem)[0]
        slope = jax.grad(problem.loss)(vector)
        for rate in (1.0, 0.3):
            moved = problem.velocity(vector, rate)
            np.testing.assert_allclose(moved, -0.5 * rate * slope, atol=1e-12)
    assert problem.dimension == 2


def test_the_first_record_is_the_start() -> None:
    with jax.enable_x64(True):
        problem = make_problem()
        weights = vectors(problem)
        records = Records.begin(problem, weights)
        assert np.asarray(problem.grid).tolist() == [0, 2, 5, 10]
        assert np.asarray(records.index).tolist() == [1, 1, 1]
        for seed in range(3):
            assert float(records.loss[seed, 0]) == float(problem.loss(weights[seed]))
        np.testing.assert_array_equal(records.path[:, 0], weights)
        assert np.isnan(np.asarray(records.loss[:, 1:])).all()
        assert np.asarray(records.active(problem)).all()


def test_only_the_seeds_that_are_due_are_written() -> None:
    with jax.enable_x64(True):
        problem = make_problem()
        start = vectors(problem)
        records = Records.begin(problem, start)
        due = jnp.asarray([True, False, True])
        later = records.write(problem, due, 2 * start)
        assert np.asarray(later.index).tolist() == [2, 1, 2]
        assert np.isfinite(np.asarray(later.loss)).sum(1).tolist() == [2, 1, 2]
        np.testing.assert_array_equal(later.path[0, 1], 2 * start[0])
        np.testing.assert_array_equal(later.last[1], start[1])
        np.testing.assert_array_equal(later.last[2], 2 * start[2])


def test_a_seed_at_the_threshold_rests_and_one_without_a_loss_has_failed() -> None:
    with jax.enable_x64(True):
        problem = make_problem()
        start = vectors(problem)
        reached = problem.loss(start[0])
        at_it = eqx.tree_at(lambda p: p.threshold, problem, reached)
        broken = start.at[2].set(jnp.inf)
        records = Records.begin(at_it, 2 * start).write(at_it, jnp.ones(3, dtype=bool), start)
        assert bool(records.converged[0]), "at the threshold is converged"
        records = Records.begin(problem, broken)
        assert np.asarray(records.failed).tolist() == [False, False, True]
        assert np.asarray(records.active(problem)).tolist() == [True, True, False]


def test_the_end_of_the_grid_is_the_end() -> None:
    with jax.enable_x64(True):
        problem = make_problem()
        records = Records.begin(problem, vectors(problem))
        for _ in range(3):
            assert np.asarray(records.active(problem)).all()
            records = records.write(problem, jnp.ones(3, dtype=bool), records.last)
        assert not np.asarray(records.active(problem)).any()


def test_without_weights_the_latest_alone_are_kept() -> None:
    with jax.enable_x64(True):
        problem = make_problem(weights=False)
        start = vectors(problem)
        records = Records.begin(problem, start)
        records = records.write(problem, jnp.ones(3, dtype=bool), 2 * start)
        assert records.path.shape == (3, 0, problem.layout.size)
        np.testing.assert_array_equal(records.last, 2 * start)
        assert np.isfinite(np.asarray(records.loss)).sum(1).tolist() == [2, 2, 2]
