"""One head on one eigenvector (T12), the fixed points, and the escape from them."""

import numpy as np
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)


@pytest.mark.parametrize("direction", [0, 3])
def test_one_head_follows_the_implicit_solution(direction):
    """Started along an eigenvector, the head stays on it and grows as T12 says."""
    model = ss.SeparateAttention(heads=2)
    start = ss.EigenvectorStart(direction=direction, init_scale=0.2)
    until = [200, 4000][direction == 3]
    run = ss.train(model, TASK, init=start, method=ss.GradientFlow(until=until), record=200)
    course = ss.theory.head_time_course(TASK, direction, 0.2, times=run.time)
    np.testing.assert_allclose(run.dataset["v"][0, :, 0], course.value, rtol=1e-6)
    across = np.delete(run.dataset["k"].to_numpy()[0, :, 0, 0], direction, axis=-1)
    assert np.abs(across).max() == 0


@pytest.mark.parametrize("subset", [(0,), (0, 1), (0, 1, 2)])
def test_in_order_saddles_are_waited_at(subset):
    """Beside M_m the escape is algebraic: a run that starts there stays for long (T16)."""
    model = ss.SeparateAttention(heads=5)
    run = ss.train(
        model,
        TASK,
        init=ss.FixedPointStart(subset, init_scale=1e-3),
        method=ss.GradientFlow(until=500),
        record=50,
    )
    level = ss.theory.fixed_points(TASK).at(subset).loss
    assert np.abs(run.loss[0] - level).max() < 1e-4


def test_a_strict_saddle_is_left_by_the_predicted_rotation():
    """Beside M({2}) the learned head turns towards e_1, at the rate of the Hessian (T16)."""
    model = ss.SeparateAttention(heads=1)
    run = ss.train(
        model,
        TASK,
        init=ss.FixedPointStart((1,), init_scale=1e-6),
        method=ss.GradientFlow(until=1000),
        record=1000,
    )
    start, end = run.loss[0, 0], run.loss[0, -1]
    points = ss.theory.fixed_points(TASK)
    assert start == pytest.approx(points.at([1]).loss, abs=1e-9)
    assert end == pytest.approx(points.at([0]).loss, abs=1e-6)
    escape = ss.theory.escape_direction(model, TASK, [1])
    assert (escape.learned, escape.towards) == (1, 0)
    # While it is small, the component along e_1 grows exponentially.
    turned = np.abs(run.dataset["k"].to_numpy()[0, :, 0, 0, 0])
    early = (turned > 1e-5) & (turned < 1e-3)
    rate = np.polyfit(run.time[early], np.log(turned[early]), 1)[0]
    assert rate == pytest.approx(escape.rate, rel=2e-2)


def test_minima_of_both_parametrisations_are_reached():
    least = ss.theory.minimum(TASK)
    for model, until in [(ss.MergedAttention(heads=8), 2000), (ss.SeparateAttention(heads=8), 1e6)]:
        run = ss.train(
            model,
            TASK,
            method=ss.GradientFlow(until=until, converged=1e-9),
            seeds=2,
            record=ss.Record(points=400, spacing="log"),
        )
        assert {outcome.result for outcome in run.outcomes} == {"converged"}
        np.testing.assert_allclose(run.loss[:, -1], least.loss, rtol=1e-7)
