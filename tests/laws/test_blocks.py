"""All blocks: statistics are the data, what is conserved, and what stays zero."""

import jax
import numpy as np
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.5, 0.3, 0.2], context_length=15)
PROMPTS = TASK.sample(80, seed=1)
MODELS = [
    pytest.param(ss.MergedAttention(heads=3, blocks="full"), id="merged"),
    pytest.param(ss.SeparateAttention(heads=3, rank=2, blocks="full"), id="separate"),
]


def random_weights(model, scale, seed=0):
    generator = np.random.default_rng(seed)
    shapes = model.shapes(TASK.dimension)
    return {name: scale * generator.standard_normal(shape) for name, shape in shapes.items()}


def plain_descent(model, weights, rate, steps):
    """Gradient descent by autodiff on every prompt."""
    with jax.enable_x64(True):

        @jax.jit
        def step(weights):
            def loss(weights):
                return ((PROMPTS.target - model.predict(weights, PROMPTS)) ** 2).mean()

            slope = jax.grad(loss)(weights)
            return {name: weights[name] - rate * slope[name] for name in weights}

        weights = {name: jax.numpy.asarray(array) for name, array in weights.items()}
        for _ in range(steps):
            weights = step(weights)
        return {name: np.asarray(array) for name, array in weights.items()}


@pytest.mark.parametrize("model", MODELS)
def test_statistics_are_the_data(model):
    """T6 with all blocks: a thousand steps to 1e-9."""
    start = random_weights(model, 0.3)
    run = ss.train(model, PROMPTS, weights=start, method=ss.GradientDescent(0.03, 1000), record=50)
    assert run.loss[0, -1] < 0.8 * run.loss[0, 0]
    expected = plain_descent(model, start, 0.03, 1000)
    for name, array in run.weights(seed=0).items():
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_flow_conserves(model):
    """T14 with all blocks: ‖k‖² + κ² − ‖q‖² and Σ(‖k‖² + κ²) − v² − ‖ν‖², on data."""
    run = ss.train(
        model,
        PROMPTS,
        weights=random_weights(model, 0.5),
        method=ss.GradientFlow(until=100),
        record=40,
    )
    for name in model.conserved_axes:
        change = run.dataset[name] - run.dataset[name].isel(time=0)
        assert float(np.abs(change).max()) < 1e-6
    moved = run.weights(seed=0)["v"] - run.weights(seed=0, index=0)["v"]
    assert np.abs(moved).max() > 0.1


@pytest.mark.parametrize("model", MODELS)
def test_a_zero_block_stays_zero_on_the_population_and_moves_on_data(model):
    """Started at ν = u = 0 on the pure task they stay 0 in expectation (Z App. C.1, E.1)."""
    extra = [name for name in model.axes if name in ("nu", "u", "kappa")]
    method = ss.GradientFlow(until=60)
    exact = ss.train(model, TASK, init_scale=0.5, method=method, record=30)
    data = ss.train(model, PROMPTS, init_scale=0.5, method=method, record=30)
    for name in extra:
        assert float(np.abs(exact.dataset[name]).max()) == 0
        assert float(np.abs(data.dataset[name]).max()) > 1e-3
    reduced = type(model)(**{**vars(model), "blocks": "reduced"})
    plain = ss.train(reduced, TASK, init_scale=0.5, method=method, record=30)
    np.testing.assert_allclose(exact.loss, plain.loss, atol=1e-7)


def test_the_mixture_is_exact():
    """Exact in-weight dynamics against the statistics of 10⁶ prompts: errors of order 1e-3."""
    pool = ss.TaskPool.draw([0.5, 0.5], context_length=15, count=1, share=0.4, seed=2)
    model = ss.MergedAttention(heads=4, blocks="full")
    batches = (pool.sample(20_000, seed) for seed in range(50))
    statistics = ss.Statistics.from_batches(batches, "full")
    assert statistics.count == 10**6
    method = ss.GradientFlow(until=60)
    exact = ss.train(model, pool, init_scale=0.05, method=method, record=60)
    sampled = ss.train(model, statistics, init_scale=0.05, method=method, record=60)
    assert exact.loss[0, -1] < 0.3
    # 1/√P of quantities of order one, amplified while a saddle is left.
    assert np.abs(exact.loss - sampled.loss).max() < 0.02
    assert np.abs(exact.loss[0, -1] - sampled.loss[0, -1]) < 3e-3
