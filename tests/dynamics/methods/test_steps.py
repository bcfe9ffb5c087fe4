"""What one step does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._steps import (
    FreshStep,
    GradientStep,
    OptaxStep,
    describe_transform,
    named_transform,
)
from saddlescope.risk import PromptRisk

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
COUNT = np.int64(4)


def make_problem() -> Problem:
    method = ss.StochasticGradientDescent(0.2, 100, batch_size=8)
    return Job(ss.Setting(MODEL, TASK, method, seeds=3)).prepared.problem


def weights_at(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        name: jnp.asarray(random.standard_normal(shape)) for name, shape in MODEL.shapes(2).items()
    }


def test_gradient_descent_goes_along_the_gradient() -> None:
    with jax.enable_x64(True):
        problem, weights = make_problem(), weights_at(0)
        moved, memory = GradientStep.of(0.2)(problem, weights, (), jnp.asarray(COUNT))
        slope = jax.grad(lambda at: problem.risk.loss(MODEL, at))(weights)
        for name in weights:
            np.testing.assert_allclose(moved[name], weights[name] - 0.2 * slope[name], atol=1e-13)
    assert memory == ()


def test_optax_sees_the_gradient_of_the_loss() -> None:
    with jax.enable_x64(True):
        problem, weights = make_problem(), weights_at(0)
        step = OptaxStep(optax.sgd(0.2))
        memory = step.init(weights, jnp.asarray(0))
        by_optax, _ = step(problem, weights, memory, jnp.asarray(COUNT))
        plain, _ = GradientStep.of(0.2)(problem, weights, (), jnp.asarray(COUNT))
        for name in weights:
            np.testing.assert_allclose(by_optax[name], plain[name], rtol=1e-13, atol=1e-15)


def test_an_optimisers_memory_goes_from_step_to_step() -> None:
    with jax.enable_x64(True):
        problem, weights = make_problem(), weights_at(0)
        step = OptaxStep(optax.sgd(0.2, momentum=0.5))
        memory = step.init(weights, jnp.asarray(0))
        once, memory = step(problem, weights, memory, jnp.asarray(0))
        twice, _ = step(problem, once, memory, jnp.asarray(1))
        slopes = [jax.grad(lambda w: problem.risk.loss(MODEL, w))(at) for at in (weights, once)]
        for name in weights:
            change = -0.2 * (slopes[1][name] + 0.5 * slopes[0][name])
            np.testing.assert_allclose(twice[name], once[name] + change, atol=1e-12)


def test_a_fresh_step_is_a_step_on_prompts_of_its_seed_and_number() -> None:
    with jax.enable_x64(True):
        problem, weights = make_problem(), weights_at(0)
        fresh = FreshStep.of(GradientStep.of(0.2), key=5, batch_size=8)

        @jax.jit
        def moved(seed: Any, count: Any) -> dict[str, Any]:
            return fresh(problem, weights, fresh.init(weights, seed), count)[0]

        here, other_seed, other_step = (
            moved(jnp.asarray(seed), jnp.asarray(count)) for seed, count in ((1, 4), (2, 4), (1, 5))
        )
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(5), 1), 4)
        batch = jax.jit(lambda key: problem.sampler.draw(key, 8))(key)  # type: ignore[union-attr]
        risk = PromptRisk(problem.risk.gain, batch)
        slope = jax.grad(lambda at: risk.loss(MODEL, at))(weights)
        for name in weights:
            np.testing.assert_allclose(here[name], weights[name] - 0.2 * slope[name], atol=1e-13)
            assert (here[name] != other_seed[name]).all(), "every seed draws its own"
            assert (here[name] != other_step[name]).all(), "every step draws its own"


def test_one_name_is_one_optimiser() -> None:
    # Another object would be compiled again.
    assert named_transform("adam", 0.1, ()) is named_transform("adam", 0.1, ())
    assert named_transform("adam", 0.1, ()) is not named_transform("adam", 0.2, ())


def test_an_optimiser_is_described_by_its_functions_and_numbers() -> None:
    described = describe_transform(optax.adam(0.1))
    assert described == describe_transform(optax.adam(0.1))
    assert described != describe_transform(optax.adam(0.1, b1=0.8))
    assert described != describe_transform(optax.rmsprop(0.1))
    plain = optax.stateless(lambda updates, params: updates)
    array = jnp.asarray([1.0, 2.0])
    scaled = optax.stateless(lambda updates, params: (updates, array))
    assert len({describe_transform(one) for one in (plain, scaled)}) == 2
    assert "0x" not in described, "no address of this process"
