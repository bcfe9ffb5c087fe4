"""The linear transformer with vector labels: what it computes, and how it trains (T15)."""

import jax
import numpy as np
import pytest

from saddlescope.attention import MergedAttention
from saddlescope.attention.linear_transformer import LinearTransformer
from saddlescope.dynamics import (
    GradientDescent,
    GradientFlow,
    Optimiser,
    StochasticGradientDescent,
    evaluate,
    train,
)
from saddlescope.errors import InvalidInput
from saddlescope.precision import to_numpy
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.task.aligned import AlignedRegression
from saddlescope.theory.linear_transformer import coupled_modes

BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
SPECTRUM = Spectrum([1.0, 0.6, 0.3], BASIS)
REDUCED, FULL = LinearTransformer(), LinearTransformer(blocks="full")


def draw_weights(model, dimension, seed=0, scale=0.5):
    generator = np.random.default_rng(seed)
    shapes = model.shapes(dimension).items()
    return {name: scale * generator.standard_normal(shape) for name, shape in shapes}


def along(task, weights):
    """p_α and q_α of recorded weights, [S, T, D] each."""
    basis = task.common_basis
    turned = (basis.T @ weights[name].to_numpy() @ basis for name in ("p2", "q1"))
    return [np.diagonal(matrices, axis1=-2, axis2=-1) for matrices in turned]


def test_prediction_is_that_of_the_whole_transformer():
    """f(Z) = Z + W_P(ZZᵀ/N)W_Q Z with anything in the blocks that do not reach the prediction."""
    prompts = AlignedRegression(SPECTRUM, 6).sample(4)
    weights = draw_weights(FULL, 3)
    value, query = np.random.default_rng(1).standard_normal((2, 6, 6))
    value[3:] = np.hstack([weights["p1"], weights["p2"]])
    query[:, :3] = np.vstack([weights["q1"], weights["q2"]])
    tokens = np.concatenate([prompts.x, prompts.y], axis=-1).mT
    tokens[:, 3:, -1] = 0
    out = tokens + value @ (tokens @ tokens.mT / 6) @ query @ tokens
    np.testing.assert_allclose(FULL.predict(weights, prompts), out[:, 3:, -1], atol=1e-12)


def test_reduced_prediction():
    """ŷ = p₂WΣ̂q₁x_q, which full blocks make too where p₁ and q₂ are zero."""
    prompts = AlignedRegression(SPECTRUM, 6, "independent").sample(4)
    weights = draw_weights(REDUCED, 3)
    task = np.linalg.solve(prompts.x[:, :3], prompts.y[:, :3]).mT
    seen = prompts.x[:, :-1].mT @ prompts.x[:, :-1] / 6
    key = prompts.query @ weights["q1"].T
    expected = (weights["p2"] @ task @ seen @ key[:, :, None])[:, :, 0]
    np.testing.assert_allclose(REDUCED.predict(weights, prompts), expected, atol=1e-10)
    zeros = {"p1": np.zeros((3, 3)), "q2": np.zeros((3, 3))}
    np.testing.assert_allclose(FULL.predict({**weights, **zeros}, prompts), expected, atol=1e-10)
    bare = LinearTransformer(normalisation="none")
    np.testing.assert_allclose(bare.predict(weights, prompts, 6.0), 6 * expected, atol=1e-9)


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_population_loss_against_prompts(tasks):
    """Within four standard errors, at general weights in a rotated basis."""
    task, count = AlignedRegression(SPECTRUM, 5, tasks), 40_000
    prompts = task.sample(count, seed=4)
    objective = REDUCED.objective(task)
    risk = objective.risk
    assert objective.basis is None
    for seed in range(3):
        weights = draw_weights(REDUCED, 3, seed)
        errors = ((prompts.target - REDUCED.predict(weights, prompts)) ** 2).sum(-1)
        exact = risk.loss(REDUCED, weights)
        assert abs(errors.mean() - exact) < 4 * errors.std() / np.sqrt(count)


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_fresh_prompts_are_of_the_same_law(tasks):
    """The compiled sampler's loss is the population's, within four standard errors."""
    task, count = AlignedRegression(SPECTRUM, 5, tasks), 40_000
    with jax.enable_x64(True):
        batch = to_numpy(task.sampler().draw(jax.random.key(0), count))
    assert batch.x.shape == batch.y.shape == (count, 6, 3)
    weights = draw_weights(REDUCED, 3)
    errors = ((batch.target - REDUCED.predict(weights, batch)) ** 2).sum(-1)
    exact = REDUCED.objective(task).risk.loss(REDUCED, weights)
    assert abs(errors.mean() - exact) < 4 * errors.std() / np.sqrt(count)
    power = (batch.target**2).sum(-1)
    assert abs(power.mean() - SPECTRUM.trace) < 4 * power.std() / np.sqrt(count)


@pytest.mark.parametrize("length", [2, 100])
def test_flow_on_matrices_is_the_coupled_modes(length):
    task = AlignedRegression(SPECTRUM, length)
    p, q = np.array([0.3, 0.2, 0.4]), np.array([0.1, 0.25, 0.3])
    run = train(
        REDUCED,
        task,
        method=GradientFlow(until=30, rtol=1e-10, atol=1e-12),
        weights=REDUCED.start(BASIS, p, q),
        record=20,
    )
    expected = coupled_modes(SPECTRUM, length, p, q, run.time)
    found = along(task, run.dataset)
    np.testing.assert_allclose(found[0][0], expected.p, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found[1][0], expected.q, rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.loss[0], expected.loss, rtol=0, atol=1e-7)


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_flow_from_anywhere_keeps_the_balance_of_norms(tasks):
    task = AlignedRegression(SPECTRUM, 10, tasks)
    method = GradientFlow(until=20, rtol=1e-10, atol=1e-12)
    run = train(REDUCED, task, method=method, init_scale=0.5, seeds=3, record=10)
    balance = run.dataset["norm_balance"].to_numpy()
    np.testing.assert_allclose(balance, balance[:, :1] * np.ones(10), rtol=0, atol=1e-8)
    assert (np.diff(run.loss, axis=1) < 0).all()


def test_independent_tasks_share_one_value():
    """p₂, started as a multiple of I, stays one; aligned tasks part its modes."""
    start = REDUCED.start(np.eye(3), 0.05, 0.05)
    spread = {}
    for tasks in ("aligned", "independent"):
        task = AlignedRegression(SPECTRUM, 20, tasks)
        run = train(REDUCED, task, method=GradientFlow(until=8), weights=start, record=20)
        values = run.dataset["p2"].to_numpy()[0]
        spread[tasks] = np.abs(values - values[:, :1, :1] * np.eye(3)).max()
    assert spread["independent"] < 1e-12
    assert spread["aligned"] > 0.3


def test_descent_goes_along_the_flow_of_half_the_loss():
    """One step of rate η is 2η of MT's time, where the loss is ½E‖·‖² and its rate 1."""
    task, weights = AlignedRegression(SPECTRUM, 10), draw_weights(REDUCED, 3, scale=0.3)
    slow = train(REDUCED, task, method=GradientDescent(5e-4, steps=1000), weights=weights, record=5)
    flow = train(REDUCED, task, method=GradientFlow(until=1), weights=weights, record=5)
    np.testing.assert_allclose(slow.time, flow.time, atol=1e-12)
    # Euler's error is half a step times the rates, about 1.
    np.testing.assert_allclose(slow.loss, flow.loss, rtol=0, atol=1e-3)


def test_without_the_normalisation_time_runs_n_times_faster():
    task, weights = AlignedRegression(SPECTRUM, 9), draw_weights(REDUCED, 3, scale=0.3)
    bare = LinearTransformer(normalisation="none")
    scaled = {name: array / 3 for name, array in weights.items()}
    ours = train(REDUCED, task, method=GradientDescent(9e-3, 100), weights=weights, record=5)
    theirs = train(bare, task, method=GradientDescent(1e-3, 100), weights=scaled, record=5)
    np.testing.assert_allclose(theirs.loss, ours.loss, rtol=1e-10)
    np.testing.assert_allclose(theirs.time, ours.time, rtol=1e-12)


def test_batches_on_the_whole_weights_follow_the_coupled_modes():
    """N = 100, all blocks training, within 5 % of the limits at every record.

    A prompt's velocity has a relative spread of about 3, so that 1200 steps of 256 prompts leave
    3/√(3·10⁵) of the growth of ln a, about 3.5: 2 %. Euler's error in ln a is half a step of
    flow time, .005, times that growth: 2 %. At most a quarter of either reaches a/a^∞.
    """
    values, start = [1.0, 0.6], np.sqrt(0.05)
    task = AlignedRegression(values, 100)
    run = train(
        FULL,
        task,
        method=StochasticGradientDescent(learning_rate=0.005, steps=1200, batch_size=256),
        weights=FULL.start(np.eye(2), start, start),
        record=50,
    )
    expected = coupled_modes(values, 100, start, start, run.time)
    p, q = along(task, run.dataset)
    limit = expected.fixed_point.amplitude
    assert expected.amplitude[-1] == pytest.approx(limit, rel=0.05)
    apart = np.abs(p[0] * q[0] - expected.amplitude) / limit
    assert apart.max() < 0.05
    # The other blocks see noise alone.
    others = [np.abs(run.dataset[name].to_numpy()).max() for name in ("p1", "q2")]
    assert 0 < max(others) < 0.05
    balance = run.dataset["norm_balance"].to_numpy()[0]
    assert np.abs(balance - balance[0]).max() < 0.05


def test_reduced_blocks_on_fresh_prompts_record_the_exact_loss():
    task = AlignedRegression(SPECTRUM, 10)
    method = StochasticGradientDescent(learning_rate=0.01, steps=20, batch_size=64)
    run = train(REDUCED, task, method=method, record=5)
    np.testing.assert_allclose(run.loss, evaluate(run, task), rtol=1e-12)


def test_an_optimiser_learns_it():
    task = AlignedRegression(SPECTRUM, 50)
    method = Optimiser("adam", steps=500, learning_rate=0.01)
    # Adam's own bias correction mixes whole numbers and floats.
    with jax.numpy_dtype_promotion("standard"):
        run = train(REDUCED, task, method=method, init_scale=0.3, record=5)
    least = coupled_modes(SPECTRUM, 50, 0.1, 0.1, [0]).fixed_point.loss
    assert least <= run.loss[0, -1] < 0.5 * run.loss[0, 0]


def test_models_and_tasks_that_do_not_fit_are_refused():
    vectors, scalars = AlignedRegression(SPECTRUM, 10), InContextRegression(SPECTRUM, 10)
    flow = GradientFlow(until=1)
    with pytest.raises(InvalidInput, match="vector labels"):
        train(REDUCED, scalars, method=flow)
    with pytest.raises(InvalidInput, match="need LinearTransformer"):
        train(MergedAttention(2), vectors, method=flow)
    with pytest.raises(InvalidInput, match="no exact loss"):
        train(FULL, vectors, method=flow)
    with pytest.raises(InvalidInput, match="converged"):
        train(REDUCED, vectors, method=GradientFlow(until=1, converged=0.1))
    with pytest.raises(InvalidInput, match="blocks"):
        LinearTransformer(blocks="some")


def test_least_loss_is_a_minimum_over_all_matrices():
    """T15's fixed point has the stated loss; steps away from it, off the modes too, have more."""
    task, values = AlignedRegression(SPECTRUM, 10), SPECTRUM.eigenvalues
    risk = REDUCED.objective(task).risk
    fixed = coupled_modes(SPECTRUM, 10, 0.1, 0.1, [0]).fixed_point
    # At rest p ∝ q √s, mode by mode.
    ratio = values**0.25
    root = np.sqrt(fixed.amplitude)
    rest = REDUCED.start(BASIS, root * ratio, root / ratio)
    assert float(risk.loss(REDUCED, rest)) == pytest.approx(fixed.loss, rel=1e-12)
    generator = np.random.default_rng(7)
    for _ in range(20):
        moved = {n: w + 0.05 * generator.standard_normal((3, 3)) for n, w in rest.items()}
        assert risk.loss(REDUCED, moved) > fixed.loss
