"""T20: the staircase, merged attention's course and the minimum for inputs of any law."""

import numpy as np
import pytest

import saddlescope as ss

SHORT = 6
MODEL = ss.SeparateAttention(heads=4)
LAWS = ("gaussian", "rademacher", "laplace", "student:6")
REVERSED = ss.InContextRegression([0.4, 0.3], 8, inputs=["laplace", "rademacher"])


@pytest.fixture(scope="module")
def runs() -> dict[str, ss.Trajectory]:
    """Runs of one shape, which compile once."""
    flow = ss.Setting(
        MODEL,
        ss.InContextRegression([0.5, 0.3], SHORT, label_noise=0.2),
        ss.GradientFlow(until=6000),
        ss.RandomStart(0.01),
        ss.Record(points=800, spacing="log"),
        seeds=2,
    )
    settings = {name: flow.replace(inputs=name) for name in LAWS}
    settings["reversed"] = flow.replace(task=REVERSED, init_scale=0.003, until=20_000)
    return dict(zip(settings, ss.train_many(list(settings.values())), strict=True))


@pytest.mark.parametrize(
    ("name", "kurtosis"), [("gaussian", 0), ("rademacher", -2), ("laplace", 3), ("student:6", 3)]
)
def test_training_takes_the_staircase_of_its_law(runs, name, kurtosis):
    """b = λ²(1 + (1+γ)/N) + (tr Λ + σ²)λ/N: levels, final loss and drop times follow from it."""
    values = np.array([0.5, 0.3])
    summary = values**2 * (1 + (1 + kurtosis) / SHORT) + (0.8 + 0.04) * values / SHORT
    levels = 0.8 - np.concatenate([[0.0], np.cumsum(values**3 / summary)])
    np.testing.assert_allclose(
        ss.theory.plateau_losses(runs[name].setting.task), levels, rtol=1e-13
    )
    comparison = runs[name].compare()
    assert comparison.plateau_losses == pytest.approx(tuple(levels))
    for seed in comparison.seeds:
        # What is left of the slowest rate at the end of the run.
        assert seed.final_loss == pytest.approx(levels[-1], abs=1e-6)
        assert len(seed.drops) == 2
        for drop in seed.drops:
            assert abs(drop.error) < 2e-3


def test_laws_of_one_kurtosis_train_alike_and_others_do_not(runs):
    np.testing.assert_allclose(runs["laplace"].loss, runs["student:6"].loss, atol=1e-12)
    ends = [runs[name].loss[:, -1].mean() for name in ("rademacher", "gaussian", "laplace")]
    assert (np.diff(ends) > 0.05).all()


def test_a_dimension_that_is_added_has_no_power_whatever_the_law():
    """Rows of five and of six dimensions share a program, and train as each alone."""
    laws = "laplace,uniform,gaussian,rademacher,student:6"
    wide = ss.Setting(
        ss.SeparateAttention(heads=2),
        ss.InContextRegression([0.5, 0.3, 0.2, 0.1, 0.1, 0.1], SHORT, inputs="rademacher"),
        ss.GradientDescent(0.1, 50),
        ss.RandomStart(0.5),
        ss.Record(points=3),
    )
    task = ss.InContextRegression([0.5, 0.3, 0.2, 0.1, 0.1], SHORT, inputs=laws)
    narrow = wide.replace(task=task)
    _, together = ss.train_many([wide, narrow])
    np.testing.assert_allclose(together.loss, ss.train(narrow).loss, atol=1e-13)


def test_merged_attention_on_white_inputs_in_closed_form():
    """T9 with 1 + (1+γ+D)/N."""
    task = ss.InContextRegression("white:3", SHORT, inputs="laplace")
    model, start = ss.MergedAttention(heads=4), ss.BalancedStart(0.05, direction="aligned")
    run = ss.train(model, task, init=start, method=ss.GradientFlow(until=6), record=100)
    factor = 1 + (1 + 3 + 3) / SHORT
    growth = np.exp(2 * np.sqrt(3) * run.time)
    weights = start.weights(model, task, seed=0)
    sigma = growth / (factor * (growth - 1) + np.sqrt(3) / (weights["v"] ** 2).sum())
    np.testing.assert_allclose(run.loss[0], 3 * (1 - 2 * sigma + factor * sigma**2), atol=1e-7)
    course = ss.theory.time_course(task, weights=weights, times=run.time)
    assert course.equation == "T9"
    np.testing.assert_allclose(course.loss, run.loss[0], atol=1e-7)


def test_merged_attention_on_any_inputs_by_the_reduced_flow():
    task = ss.InContextRegression([0.5, 0.3, 0.2], SHORT, inputs="laplace,uniform,rademacher")
    model, start = ss.MergedAttention(heads=4), ss.RandomStart(1e-4)
    run = ss.train(model, task, init=start, method=ss.GradientFlow(until=150), record=100)
    weights = start.weights(model, task, seed=0)
    course = ss.theory.time_course(task, weights=weights, times=run.time)
    assert course.equation == "T10"
    assert np.abs(course.loss - run.loss[0]).max() < 1e-4


def test_a_heavy_tail_on_the_stronger_eigenvector_reverses_the_orders(runs):
    """λ = (.4, .3), γ = (3, −2), N = 8: e1 escapes first, e2 is the stable one."""
    task, of_task = REVERSED, ss.theory.modes(REVERSED)
    # b = λ²(1 + (1+γ)/N) + tr(Λ) λ/N.
    np.testing.assert_allclose(of_task.summary, [0.16 * 1.5 + 0.035, 0.09 * 0.875 + 0.02625])
    np.testing.assert_allclose(of_task.drop, [0.4**3 / 0.275, 0.3**3 / 0.105])
    assert not of_task.orders_agree
    assert ss.theory.modes(ss.InContextRegression([0.4, 0.3], 8, inputs="laplace")).orders_agree
    with pytest.raises(ss.TheoryDoesNotApply, match="order"):
        ss.theory.plateau_losses(task)
    for subset, index in (([0], 1), ([1], 0), ([0, 1], 0)):
        weights = ss.theory.minimal_norm_weights(MODEL, task, subset)
        assert ss.theory.fixed_points(task).at(subset).index == index
        assert ss.theory.hessian_index(MODEL, task, weights) == index
    path = [ss.theory.fixed_points(task).at(subset).loss for subset in ([], [0], [1], [0, 1])]
    for row in runs["reversed"].loss:
        distance = np.abs(row[:, None] - path)
        assert distance.min(0).max() < 1e-3
        assert (np.diff(distance.argmin(0)) > 0).all()


def test_samples_train_to_their_own_minimum():
    """The fourth moment is measured: descent ends where the theory says, and draws agree."""
    generator = np.random.default_rng(0)
    samples = generator.laplace(size=(200, 2)) @ np.array([[0.8, 0.2], [0.0, 0.5]])
    task = ss.InContextRegression(context_length=SHORT, inputs=samples)
    least, model = ss.theory.minimum(task), ss.MergedAttention(heads=3)
    run = ss.train(model, task, init_scale=0.5, method=ss.GradientDescent(0.1, 4000), record=2)
    assert run.loss[0, -1] == pytest.approx(least.loss, rel=1e-9)
    # With Gaussian inputs of the same covariance it would be lower by far.
    gaussian = ss.InContextRegression(covariance=task.covariance, context_length=SHORT)
    assert ss.theory.minimum(gaussian).loss < 0.95 * least.loss
    prompts = task.sample(20_000, seed=1)
    errors = (ss.theory.in_context_predictor(task)(prompts) - prompts.target) ** 2
    standard_error = errors.std() / np.sqrt(len(errors))
    assert abs(errors.mean() - least.loss) < 4 * standard_error


def test_stochastic_descent_draws_the_law():
    """Small steps on large batches end at the minimum, within what batches leave.

    The samples are all sign vectors, so that their law is the Rademacher one.
    """
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) * np.sqrt([0.5, 0.3])
    task = ss.InContextRegression(context_length=SHORT, inputs=signs)
    method = ss.StochasticGradientDescent(0.05, 600, batch_size=256)
    run = ss.train(ss.MergedAttention(heads=3), task, init_scale=0.5, method=method, record=5)
    law = ss.InContextRegression([0.5, 0.3], SHORT, inputs="rademacher")
    assert run.loss[0, -1] == pytest.approx(ss.theory.minimum(law).loss, rel=0.01)
