"""What must be the same, however it is computed."""

import jax
import numpy as np
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
PROMPTS = TASK.sample(100, seed=1)


def plain_descent(model, prompts, weights, rate, steps):
    """Full-batch gradient descent by autodiff on every prompt, one Python step at a time."""
    with jax.enable_x64(True):

        @jax.jit
        def step(weights):
            def loss(weights):
                predicted = model.predict(weights, prompts)
                return ((prompts.target - predicted) ** 2).mean()

            value, slope = jax.value_and_grad(loss)(weights)
            return {name: weights[name] - rate * slope[name] for name in weights}, value

        weights = {name: jax.numpy.asarray(array) for name, array in weights.items()}
        losses = []
        for _ in range(steps):
            weights, value = step(weights)
            losses.append(float(value))
        return {name: np.asarray(array) for name, array in weights.items()}, np.array(losses)


PAIRS = [
    pytest.param(ss.MergedAttention(heads=3), ss.TwoLayerNetwork(heads=3), id="two-layer"),
    pytest.param(ss.SeparateAttention(heads=3), ss.ConvolutionalNetwork(heads=3), id="convolution"),
]


@pytest.mark.parametrize(("attention", "network"), PAIRS)
@pytest.mark.parametrize("task", [TASK, PROMPTS], ids=["population", "statistics"])
def test_attention_is_a_linear_network_step_by_step(attention, network, task):
    """T4: the same start gives the same path, at every one of 300 steps."""
    start = ss.RandomStart(1.0).weights(attention, TASK, seed=0)
    method = ss.GradientDescent(0.2, 300)
    ours = ss.train(attention, task, weights=start, method=method, record=301)
    theirs = ss.train(
        network, task, weights=network.from_attention(start), method=method, record=301
    )
    assert ours.loss[0, -1] < 0.9 * ours.loss[0, 0]
    np.testing.assert_allclose(theirs.loss, ours.loss, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        theirs.dataset["effective_map"], ours.dataset["effective_map"], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(("attention", "network"), PAIRS)
def test_attention_is_a_linear_network_on_every_prompt(attention, network):
    """T4 again, the network trained by autodiff through its own layers on the prompts."""
    start = ss.RandomStart(1.0).weights(attention, TASK, seed=0)
    steps = 200
    run = ss.train(
        attention, PROMPTS, weights=start, method=ss.GradientDescent(0.2, steps), record=steps + 1
    )
    _, losses = plain_descent(network, PROMPTS, network.from_attention(start), 0.2, steps)
    np.testing.assert_allclose(losses, run.loss[0, :-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        ss.MergedAttention(heads=3),
        ss.SeparateAttention(heads=3, rank=2),
        ss.SeparateAttention(heads=2, normalisation="none"),
    ],
    ids=["merged", "rank 2", "unnormalised"],
)
def test_statistics_are_the_data(model):
    """T6: a thousand steps on prompts and on their statistics take the same path."""
    gain = 31 if model.normalisation == "none" else 1
    rate = 0.05 / model.time_unit(gain)
    start = ss.RandomStart(0.5 / gain ** (1 / model.degree)).weights(model, TASK, seed=2)
    run = ss.train(
        model, PROMPTS.statistics(), weights=start, method=ss.GradientDescent(rate, 1000)
    )
    scaled = ss.Prompts(
        np.concatenate([PROMPTS.x[:, :-1] * gain, PROMPTS.x[:, -1:]], axis=1), PROMPTS.y
    )
    weights, _ = plain_descent(model, scaled, start, rate, 1000)
    for name, array in run.weights(seed=0).items():
        np.testing.assert_allclose(array, weights[name], rtol=0, atol=1e-9)


def test_prompts_and_their_statistics_are_one_task():
    model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(0.05, 50)
    data = ss.train(model, PROMPTS, method=method)
    statistics = ss.train(model, PROMPTS.statistics(), method=method)
    np.testing.assert_array_equal(data.loss, statistics.loss)


def test_a_rotated_task_is_the_same_task():
    """Training in other coordinates is training, and then changing coordinates."""
    basis, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
    turned = ss.InContextRegression(
        spectrum=ss.Spectrum([0.4, 0.3, 0.2, 0.1], basis), context_length=31
    )
    model = ss.SeparateAttention(heads=4)
    start = ss.RandomStart(0.3).weights(model, TASK, seed=0)
    method = ss.GradientFlow(until=200)
    plain = ss.train(model, TASK, weights=start, method=method, record=50)
    other = ss.train(model, turned, weights=model.rotate(start, basis.T), method=method, record=50)
    np.testing.assert_allclose(other.loss, plain.loss, atol=1e-7)
    np.testing.assert_allclose(
        other.dataset["k"].to_numpy() @ basis, plain.dataset["k"].to_numpy(), atol=1e-6
    )


def test_diagonal_and_dense_population_risks_agree():
    """The common eigenbasis is a shortcut: the dense T3 gives the same loss and force."""
    from saddlescope.risk import DenseRisk

    model = ss.SeparateAttention(heads=3)
    objective = model.objective(TASK)
    fast = objective.risk
    assert objective.basis is None
    moments = TASK.moments()
    dense = DenseRisk(1.0, moments.label_power, moments.drive, moments.summary, moments.query)
    learned = np.random.default_rng(0).normal(size=(4, 4))
    assert float(fast.map_loss(learned)) == pytest.approx(float(dense.map_loss(learned)))
    np.testing.assert_allclose(fast.map_force(learned), dense.map_force(learned), atol=1e-12)


def test_seeds_in_any_company_take_the_same_path():
    """A seed alone and among others differs in the last digits only."""
    model, method = ss.SeparateAttention(heads=3), ss.GradientFlow(until=500)
    alone = ss.train(model, TASK, method=method, seeds=[3], init_scale=0.3, record=50)
    together = ss.train(model, TASK, method=method, seeds=6, init_scale=0.3, record=50)
    np.testing.assert_allclose(together.loss[3], alone.loss[0], atol=1e-10)
    many = ss.train(model, TASK, method=method, seeds=100, init_scale=0.3, record=50)
    np.testing.assert_allclose(many.loss[:6], together.loss, atol=1e-10)
