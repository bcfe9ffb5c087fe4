"""Equivalences under other optimisers, and descent on fresh prompts."""

import jax
import numpy as np
import optax
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
PAIRS = [
    pytest.param(ss.MergedAttention(heads=3), ss.TwoLayerNetwork(heads=3), id="two-layer"),
    pytest.param(ss.SeparateAttention(heads=3), ss.ConvolutionalNetwork(heads=3), id="convolution"),
]


@pytest.fixture(autouse=True)
def _optax_mixes_dtypes():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(("attention", "network"), PAIRS)
@pytest.mark.parametrize(
    "optimiser", [optax.sgd(0.05, momentum=0.9), optax.adam(0.01)], ids=["momentum", "adam"]
)
def test_attention_is_a_linear_network_under_elementwise_optimisers(attention, network, optimiser):
    """T4: the same path to 1e-9 over 300 steps."""
    start = ss.RandomStart(0.5).weights(attention, TASK, seed=0)
    method = ss.Optimiser(optimiser, steps=300)
    ours = ss.train(attention, TASK, weights=start, method=method, record=31)
    theirs = ss.train(
        network, TASK, weights=network.from_attention(start), method=method, record=31
    )
    assert ours.loss[0, -1] < 0.9 * ours.loss[0, 0]
    np.testing.assert_allclose(theirs.loss, ours.loss, rtol=0, atol=1e-9)


def test_plain_sgd_of_optax_is_gradient_descent():
    model = ss.SeparateAttention(heads=3)
    ours = ss.train(model, TASK, init_scale=0.5, method=ss.GradientDescent(0.1, 200), record=21)
    theirs = ss.train(model, TASK, init_scale=0.5, method=ss.Optimiser("sgd", 200, 0.1), record=21)
    np.testing.assert_allclose(theirs.loss, ours.loss, atol=1e-12)


def test_other_optimisers_have_no_flow_time():
    """Their unit is the step, and no times are predicted."""
    run = ss.train(
        ss.MergedAttention(heads=3), TASK, method=ss.Optimiser("adam", 400, 0.01), record=41
    )
    np.testing.assert_array_equal(run.time, run.dataset["step"])
    comparison = run.compare()
    assert all(drop.predicted_time is None for drop in comparison.seeds[0].drops)
    assert any("step" in note for note in comparison.notes)


def test_stochastic_descent_approaches_descent_as_the_batch_grows():
    """The distance falls as one over the root of the batch size."""
    model, steps = ss.MergedAttention(heads=3), 200
    exact = ss.train(model, TASK, init_scale=0.5, method=ss.GradientDescent(0.1, steps), record=21)
    sizes = np.array([32, 128, 512])
    errors = []
    for size in sizes:
        method = ss.StochasticGradientDescent(0.1, steps, int(size))
        run = ss.train(model, TASK, init_scale=0.5, method=method, seeds=[0], record=21)
        errors.append(np.abs(run.dataset["effective_map"] - exact.dataset["effective_map"]).mean())
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # Three sizes, one path each: the exponent −1/2 to within its scatter.
    assert slope == pytest.approx(-0.5, abs=0.25)


def test_fresh_prompts_have_the_exact_moments():
    """The sampler inside compiled loops and the one outside draw from one law."""
    task = ss.InContextRegression(
        spectrum=[[0.5, 0.2], [0.2, 0.4]],
        context_length={3: 0.5, 8: 0.5},
        task_covariance=[1.0, 2.0],
        query_covariance=[0.7, 0.3],
        label_noise=0.4,
    )
    pool = ss.TaskPool.draw([0.5, 0.3], 5, count=3, share=0.6)
    for law in (task, pool):
        samples = []
        with jax.enable_x64(True):
            sampler = jax.tree.map(jax.numpy.asarray, law.sampler())
            draw = jax.jit(lambda key, sampler=sampler: sampler.draw(key, 20_000))
            for seed in range(12):
                batch = draw(jax.random.key(seed))
                prompts = ss.Prompts(*map(np.asarray, (batch.x, batch.y, batch.lengths)))
                samples.append(prompts.statistics("full").second_moment)
        values = np.array(samples)
        error = values.std(0, ddof=1) / np.sqrt(len(values))
        score = (values.mean(0) - law.block_statistics().second_moment) / error
        assert np.sqrt((score**2).mean()) < 2


@pytest.mark.parametrize(("name", "least", "most"), [("rmsprop", 1e-6, 0.1), ("adam", 0, 1e-13)])
def test_rounding_decides_where_rmsprop_ends(name: str, least: float, most: float):
    """Why the lab does without it: two starts that are one rounding apart."""
    model, task = ss.SeparateAttention(heads=3), ss.InContextRegression([0.5, 0.3, 0.2], 31)
    start = ss.RandomStart(0.05).ensemble(model, task, np.array([0]))
    pair = {key: np.concatenate([one, one * (1 + 2**-52)]) for key, one in start.items()}
    method = ss.Optimiser(name, 400, learning_rate=0.01)
    run = ss.train(ss.Setting(model, task, method, ss.GivenStart(pair), ss.Record(401), seeds=2))
    difference = np.abs(run.loss[1] / run.loss[0] - 1).max()
    assert least <= difference <= most
