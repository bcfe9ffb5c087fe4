"""Solving with the Jacobian by heads, against the dense matrix."""

import subprocess
import sys
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods import _jacobian
from saddlescope.dynamics.methods._problem import Problem

TASK = ss.InContextRegression([0.4, 0.3, 0.2], context_length=31)
TURNED = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, 0.1], [0.0, 0.1, 0.3]])
# The task vectors' covariance does not commute with the inputs'.
DENSE = ss.InContextRegression([0.4, 0.3, 0.2], context_length=31, task_covariance=TURNED)
FAR_APART = ss.InContextRegression([1e8, 1.0], context_length=31)
PROMPTS = TASK.sample(50, 0)
SMALL = ss.InContextRegression([0.6, 0.3], context_length=31)
CASES: dict[str, tuple[ss.AbstractAttention, Any]] = {
    "separate": (ss.SeparateAttention(4), TASK),
    "pairs": (ss.SeparateAttention(4, rank=2), TASK),
    "merged": (ss.MergedAttention(4), TASK),
    "two layers": (ss.TwoLayerNetwork(4), TASK),
    "convolution": (ss.ConvolutionalNetwork(4), TASK),
    "without the context": (ss.SeparateAttention(4, normalisation="none"), TASK),
    "dense": (ss.SeparateAttention(4), DENSE),
    "far apart": (ss.SeparateAttention(4), FAR_APART),
    "prompts": (ss.MergedAttention(4), PROMPTS),
    "full blocks": (ss.SeparateAttention(9, blocks="full"), SMALL),
    "full merged blocks": (ss.MergedAttention(9, blocks="full"), SMALL),
}


def problem_of(name: str, precision: str = "float64") -> Problem:
    model, task = CASES[name]
    rtol = 1e-8 if precision == "float64" else 1e-5
    method = ss.GradientFlow(1e3, rtol=rtol, precision=precision)
    return Job(ss.Setting(model, task, method, record=ss.Record(points=3))).prepared.problem


@eqx.filter_jit
def _solved(problem: Problem, at: Any, shift: Any, side: Any) -> Any:
    return _jacobian.solve_shifted(problem, at, shift)(side)


def solve(problem: Problem, at: Any, shift: Any, side: Any) -> np.ndarray:
    return np.asarray(_solved(problem, *map(jnp.asarray, (at, shift, side))))


def velocity_of(problem: Problem) -> Any:
    return partial(problem.velocity, rate=problem.pace)


@pytest.mark.parametrize("name", CASES)
def test_solving_by_heads_agrees_with_the_dense_matrix(name: str) -> None:
    """To rounding times the condition number, for weights of 1e-6 to 100."""
    with jax.enable_x64(True):
        problem = problem_of(name)
        assert _jacobian._is_by_heads(problem.model, problem.layout)
        jacobian_at = jax.jit(jax.jacfwd(velocity_of(problem)))
        draw, eps = np.random.default_rng(0), np.finfo(float).eps
        for scale in (1e-6, 1e-2, 1.0, 100.0):
            at, side = scale * draw.normal(size=(2, problem.layout.size))
            jacobian = np.asarray(jacobian_at(at))
            rate = np.abs(np.linalg.eigvalsh(jacobian)).max()
            for steep in (0.1, 10.0, 1e4, 1e6):
                matrix = rate / steep * np.eye(len(at)) - jacobian
                exact = np.linalg.solve(matrix, side)
                error = np.linalg.norm(solve(problem, at, rate / steep, side) - exact)
                # Measured over 1 000: at most 15 of these units, and 3 for the dense matrix.
                assert error < 50 * eps * np.linalg.cond(matrix) * np.linalg.norm(exact)


@pytest.mark.parametrize("off", [1e-3, 1e-6, 1e-8])
def test_a_head_that_is_nearly_singular_by_itself_costs_only_as_many_digits(off: float) -> None:
    """Where the whole Jacobian is not singular."""
    with jax.enable_x64(True):
        problem = problem_of("separate")
        at = jnp.asarray(np.random.default_rng(1).normal(size=problem.layout.size))
        weights = problem.layout.unpack(at)
        force: Any = problem.risk.force(problem.model, weights, problem.pace)

        def alone(vector: jax.Array) -> Any:
            unpacked = problem.layout.unpack(vector)
            return problem.layout.pack(force.pull_back(unpacked, force.value))

        shift = np.linalg.eigvalsh(np.asarray(jax.jit(jax.jacfwd(alone))(at)))[-1] * (1 + off)
        matrix = shift * np.eye(len(at)) - np.asarray(jax.jit(jax.jacfwd(velocity_of(problem)))(at))
        side = np.ones(len(at))
        exact = np.linalg.solve(matrix, side)
        solved = solve(problem, at, shift, side)
    assert np.linalg.cond(matrix) < 1e3
    np.testing.assert_allclose(solved, exact, rtol=0, atol=1e-16 / off * np.abs(exact).max())


def test_in_a_long_rest_the_stiff_part_keeps_its_digits() -> None:
    """With s at 1e-10 of the rate: the difference of large terms is refined (else 4e-7 off)."""
    with jax.enable_x64(True):
        problem = problem_of("separate")
        best = problem.risk.best_map(3)
        weights = problem.model.realise(np.asarray(best))  # type: ignore[attr-defined]
        at = np.asarray(problem.layout.pack(weights))
        jacobian = np.asarray(jax.jit(jax.jacfwd(velocity_of(problem)))(at))
        rates, directions = np.linalg.eigh(jacobian)
        steepest, shift = directions[:, 0], -rates[0] * 1e-10
        solved = solve(problem, at, shift, steepest)
    assert steepest @ solved == pytest.approx(1 / (shift - rates[0]), rel=1e-12)


def test_weights_that_only_pad_change_nothing() -> None:
    with jax.enable_x64(True):
        problem, fewer = problem_of("separate"), ss.SeparateAttention(2)
        small = Job(ss.Setting(fewer, TASK, ss.GradientFlow(1e3))).prepared.problem
        indices = small.layout.indices_in(problem.layout)
        weights, side = np.random.default_rng(2).normal(size=(2, small.layout.size))
        at = np.zeros(problem.layout.size)
        at[indices] = weights
        sides = np.full(problem.layout.size, 3.0)
        sides[indices] = side
        padded = solve(problem, at, 0.3, sides)
        alone = solve(small, weights, 0.3, side)
    np.testing.assert_allclose(padded[indices], alone, rtol=1e-12)
    np.testing.assert_allclose(np.delete(padded, indices), 3.0 / 0.3, rtol=1e-12)


def test_a_singular_matrix_gives_no_finite_number() -> None:
    with jax.enable_x64(True):
        problem = problem_of("separate")
        nothing = np.zeros(problem.layout.size)
        solved = solve(problem, nothing, 0.0, nothing + 1)
    assert not np.isfinite(solved).any()


def test_in_float32_it_stays_in_float32() -> None:
    problem = problem_of("separate", "float32")
    at = np.random.default_rng(3).normal(size=problem.layout.size).astype("float32")
    solved = solve(problem, at, np.float32(0.5), at)
    matrix = 0.5 * np.eye(len(at)) - np.asarray(jax.jit(jax.jacfwd(velocity_of(problem)))(at))
    assert solved.dtype == np.float32
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, at), rtol=1e-3, atol=1e-4)


def test_few_weights_with_many_features_are_solved_densely() -> None:
    model = ss.SeparateAttention(5, blocks="full")
    task = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
    problem = Job(ss.Setting(model, task, ss.GradientFlow(1e3))).prepared.problem
    assert not _jacobian._is_by_heads(problem.model, problem.layout)


def test_large_heads_on_every_core_do_not_wait_for_one_another() -> None:
    """In a process of its own, which can be ended if they do."""
    # Two shards on two cores. Nine matrices of size 33: LAPACK would spread them over threads.
    code = """
import saddlescope as ss
task = ss.InContextRegression([.4, .3, .2, .1], context_length=31)
method = ss.GradientFlow(until=2000, solver="stiff")
model, record = ss.SeparateAttention(heads=9, rank=4), ss.Record(points=2, weights=False)
print(ss.train(model, task, method=method, seeds=12, record=record).outcomes)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert "12 finished" in done.stdout


def test_a_batch_of_inverses_is_the_same_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    matrices = np.random.default_rng(0).standard_normal((3, 4, 4)) + 4 * np.eye(4)
    with jax.enable_x64(True):
        together = _jacobian._inverses(jnp.asarray(matrices))
        monkeypatch.setattr(_jacobian, "_MOST_IN_BATCH", 0)
        apart = _jacobian._inverses(jnp.asarray(matrices))
    np.testing.assert_array_equal(apart, together)
    np.testing.assert_allclose(apart, np.linalg.inv(matrices), rtol=1e-12)
