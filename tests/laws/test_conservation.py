"""What gradient flow keeps (T14), and how descent loses it."""

import numpy as np
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)


def drift(run):
    return max(
        float(np.abs(run.dataset[name] - run.dataset[name].isel(time=0)).max())
        for name in run.setting.model.conserved_axes
    )


@pytest.mark.parametrize(
    ("model", "until"),
    [
        (ss.SeparateAttention(heads=5), 60_000),
        (ss.SeparateAttention(heads=3, rank=2), 60_000),
        (ss.MergedAttention(heads=8), 400),
    ],
    ids=["rank 1", "rank 2", "merged"],
)
def test_flow_conserves_over_a_whole_staircase(model, until):
    """The quantities are quadratic in weights of order 1, each step errs by rtol at most.

    Errors of some hundred accurate steps add up during the drops; at rest, where most of the
    steps are taken, velocity and error vanish together.
    """
    run = ss.train(model, TASK, method=ss.GradientFlow(until=until), seeds=2, record=300)
    assert run.loss[:, -1].max() < 0.4
    assert drift(run) < 100 * run.setting.method.rtol


def test_the_drift_falls_with_the_tolerance():
    model = ss.SeparateAttention(heads=5)
    drifts = [
        drift(
            ss.train(
                model,
                TASK,
                init_scale=0.3,
                method=ss.GradientFlow(until=300, rtol=rtol, atol=rtol * 1e-3),
                record=50,
            )
        )
        for rtol in (1e-5, 1e-8)
    ]
    assert drifts[1] < drifts[0] / 100


def test_statistics_of_data_conserve_too():
    """T14 holds for any loss."""
    run = ss.train(
        ss.SeparateAttention(heads=4),
        TASK.sample(200, seed=3),
        init_scale=0.3,
        method=ss.GradientFlow(until=300),
        record=50,
    )
    assert drift(run) < 1e-6


def test_descent_drifts_in_proportion_to_the_learning_rate():
    model = ss.SeparateAttention(heads=4)
    rates = np.array([0.1, 0.05, 0.025])
    drifts = [
        drift(
            ss.train(
                model,
                TASK,
                init_scale=0.3,
                method=ss.GradientDescent(rate, round(100 / rate)),
                record=100,
            )
        )
        for rate in rates
    ]
    slope = np.polyfit(np.log(rates), np.log(drifts), 1)[0]
    assert slope == pytest.approx(1, abs=0.1)
