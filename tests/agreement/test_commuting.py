"""T17: other task and query covariances, noise, random lengths; and where a head rotates."""

import numpy as np
import pytest

import saddlescope as ss


def test_orders_that_agree_give_the_in_order_staircase():
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))

    def rotated(*values):
        return (basis * np.array(values)) @ basis.T

    task = ss.InContextRegression(
        spectrum=rotated(0.5, 0.3, 0.2),
        context_length={8: 0.5, 31: 0.5},
        task_covariance=rotated(1.2, 1.0, 0.9),
        query_covariance=rotated(0.6, 0.4, 0.3),
        label_noise=0.2,
    )
    assert ss.theory.modes(task).orders_agree
    run = ss.train(
        ss.SeparateAttention(heads=4), task, method=ss.GradientFlow(until=8000), seeds=4, record=400
    )
    comparison = run.compare()
    levels = ss.theory.plateau_losses(task)
    assert comparison.plateau_losses == pytest.approx(tuple(levels))
    errors = [abs(d.error) for s in comparison.seeds for d in s.drops if d.error is not None]
    assert len(errors) >= 8
    assert np.median(errors) < 2e-3
    assert max(errors) < 5e-2


def test_a_head_rotates_where_the_orders_disagree():
    """λ = (1, .3), ω = (.5, .9): the path is ∅ → {1} → {2} → {1, 2} (T17)."""
    task = ss.InContextRegression(
        spectrum=[1.0, 0.3],
        context_length=31,
        task_covariance=[0.5, 0.9],
        query_covariance=[1.0, 1.0],
    )
    found = ss.theory.modes(task)
    assert not found.orders_agree
    with pytest.raises(ss.TheoryDoesNotApply, match="order"):
        ss.theory.plateau_losses(task)
    points = ss.theory.fixed_points(task)
    run = ss.train(
        ss.SeparateAttention(heads=4),
        task,
        init_scale=0.003,
        seeds=3,
        method=ss.GradientFlow(until=30_000),
        record=4000,
    )
    path = [points.at(subset).loss for subset in ([], [0], [1], [0, 1])]
    for row in run.loss:
        distance = np.abs(row[:, None] - path)
        assert distance.min(0).max() < 1e-3
        assert (np.diff(distance.argmin(0)) > 0).all()


def test_covariances_that_do_not_commute_still_train_to_the_minimum():
    task = ss.InContextRegression(
        spectrum=[0.6, 0.4], context_length=15, task_covariance=[[1.0, 0.5], [0.5, 1.0]]
    )
    run = ss.train(
        ss.MergedAttention(heads=4),
        task,
        method=ss.GradientFlow(until=4000, converged=1e-10),
        init_scale=0.1,
        record=400,
    )
    least = ss.theory.minimum(task)
    np.testing.assert_allclose(run.loss[0, -1], least.loss, rtol=1e-8)
    np.testing.assert_allclose(run.dataset["effective_map"][0, -1], least.effective_map, atol=1e-3)
    comparison = run.compare()
    power = task.moments().label_power
    assert comparison.plateau_losses == pytest.approx((power, least.loss), abs=1e-13)
    assert any("commut" in note for note in comparison.notes)
