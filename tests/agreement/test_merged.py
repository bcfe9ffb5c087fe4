"""Merged attention's one drop, in closed form and by the reduced flow, against training."""

import numpy as np
import pytest

import saddlescope as ss


def test_white_covariance_in_closed_form():
    """T9 from its own start is exact: the loss agrees to the solver's tolerance."""
    task = ss.InContextRegression(spectrum="white:4", context_length=31)
    model = ss.MergedAttention(heads=8)
    start = ss.BalancedStart(init_scale=0.05, direction="aligned")
    run = ss.train(model, task, init=start, method=ss.GradientFlow(until=6), record=200)
    weights = start.weights(model, task, seed=0)
    course = ss.theory.time_course(task, weights=weights, times=run.time)
    assert course.equation == "T9"
    np.testing.assert_allclose(course.loss, run.loss[0], atol=1e-7)
    # Its own parameter is w² = Σ v².
    assert ss.theory.alignment(task, weights) == pytest.approx((weights["v"] ** 2).sum())


@pytest.mark.parametrize(
    ("spectrum", "until"), [([0.4, 0.3, 0.2, 0.1], 200), ("power:8:1", 400)], ids=["D=4", "D=8"]
)
def test_any_covariance_by_the_reduced_flow(spectrum, until):
    """T10 from a small random start: within 1e-4 of the full flow for all t at w = 1e-4."""
    task = ss.InContextRegression(spectrum=spectrum, context_length=31)
    model = ss.MergedAttention(heads=8)
    run = ss.train(
        model, task, init_scale=1e-4, seeds=3, method=ss.GradientFlow(until=until), record=300
    )
    for seed in range(3):
        weights = ss.RandomStart(1e-4).weights(model, task, seed)
        course = ss.theory.time_course(task, weights=weights, times=run.time)
        assert course.equation == "T10"
        assert np.abs(course.loss - run.loss[seed]).max() < 1e-4


def test_error_of_the_reduced_flow_falls_with_the_scale():
    """T10's error is proportional to w."""
    task = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
    model = ss.MergedAttention(heads=8)
    scales = np.array([1e-2, 1e-3, 1e-4])
    errors = []
    for scale in scales:
        run = ss.train(model, task, init_scale=scale, method=ss.GradientFlow(until=200), record=300)
        weights = ss.RandomStart(scale).weights(model, task, seed=0)
        course = ss.theory.time_course(task, weights=weights, times=run.time)
        errors.append(np.abs(course.loss - run.loss[0]).max())
    slope = np.polyfit(np.log(scales), np.log(errors), 1)[0]
    assert slope == pytest.approx(1, abs=0.15)


def test_plateau_duration():
    """T11: with s(0) the error of the plateau's length is one constant, whatever the scale."""
    task = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
    model = ss.MergedAttention(heads=8)
    late = []
    for scale in (1e-2, 1e-3, 1e-4):
        weights = ss.RandomStart(scale).weights(model, task, seed=0)
        drop = ss.theory.time_course(task, weights=weights).drop_time
        late.append(drop - ss.theory.plateau_duration(task, weights=weights).aligned)
    assert np.ptp(late) < 0.05 * abs(np.mean(late)) + 0.05
