"""Orders of convergence, an independent integrator, and runs that stop and go on."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
MODEL = ss.SeparateAttention(heads=5)


def test_descent_approaches_flow_at_first_order():
    """The error of gradient descent at equal times is proportional to the learning rate."""
    rates = np.array([0.2, 0.1, 0.05, 0.025])
    times = np.arange(0, 201, 40)
    flow = ss.train(
        MODEL, TASK, init_scale=0.3, method=ss.GradientFlow(until=200, rtol=1e-10), record=times
    )
    errors = []
    for rate in rates:
        steps = np.round(times / (2 * rate)).astype(int)
        descent = ss.train(
            MODEL,
            TASK,
            init_scale=0.3,
            method=ss.GradientDescent(rate, int(steps[-1])),
            record=steps,
        )
        np.testing.assert_allclose(descent.time, times)
        gap = descent.dataset["effective_map"] - flow.dataset["effective_map"]
        errors.append(float(np.abs(gap).max()))
    slope = np.polyfit(np.log(rates), np.log(errors), 1)[0]
    assert slope == pytest.approx(1, abs=0.1)


def test_flow_agrees_with_lsoda():
    """SciPy's LSODA on the equations of T3, written out in NumPy."""
    heads, dimension = 5, 4
    eigenvalues = np.array([0.4, 0.3, 0.2, 0.1])
    saturation = eigenvalues**2 * (1 + (1 + 1 / eigenvalues) / 31)

    def velocity(_, state):
        v, k, q = np.split(state, [heads, heads * (1 + dimension)])
        k, q = k.reshape(heads, dimension), q.reshape(heads, dimension)
        learned = (v[:, None] * k).T @ q
        force = np.diag(eigenvalues**2) - saturation[:, None] * learned * eigenvalues
        on_query, on_key = q @ force.T, k @ force
        return np.concatenate(
            [(k * on_query).sum(1), (v[:, None] * on_query).ravel(), (v[:, None] * on_key).ravel()]
        )

    start = ss.RandomStart(0.1).weights(MODEL, TASK, seed=0)
    flat = np.concatenate([start[name].ravel() for name in ("v", "k", "q")])
    times = np.linspace(0, 2000, 41)
    expected = solve_ivp(
        velocity, (0, 2000), flat, method="LSODA", t_eval=times, rtol=1e-11, atol=1e-14
    ).y
    run = ss.train(MODEL, TASK, weights=start, method=ss.GradientFlow(until=2000), record=times)
    # Errors of rtol = 1e-8 grow while a saddle is left; at this scale by less than a thousand.
    np.testing.assert_allclose(run.dataset["v"][0].T, expected[:heads], atol=1e-5)


def test_solver_error_is_reported():
    run = ss.train(MODEL, TASK, init_scale=0.3, method=ss.GradientFlow(until=300), record=50)
    coarse = ss.train(
        MODEL, TASK, init_scale=0.3, method=ss.GradientFlow(until=300, rtol=1e-4, atol=1e-6),
        record=50,
    )  # fmt: skip
    assert 0 < ss.solver_error(run) < 1e-6
    assert ss.solver_error(coarse) > 10 * ss.solver_error(run)


@pytest.mark.parametrize(
    "method", [ss.GradientFlow(until=30_000), ss.GradientDescent(0.05, 300_000)], ids=["flow", "gd"]
)
def test_interrupted_and_resumed_is_uninterrupted(method):
    """Bit for bit, whatever the segments were."""

    stop_half_way = ss.StopWhen(lambda snapshot: snapshot.share > 0.3)
    whole = ss.train(MODEL, TASK, method=method, seeds=3)
    with pytest.raises(ss.Interrupted) as caught:
        ss.train(MODEL, TASK, method=method, seeds=3, observers=[stop_half_way])
    part = caught.value.snapshot.result
    assert 1 < len(part.time) < len(whole.time)
    np.testing.assert_array_equal(part.loss, whole.loss[:, : len(part.time)])
    assert ss.resume(part).equals(whole)


def test_flow_that_goes_on_is_flow_that_never_stopped():
    grid = np.arange(0, 4001, 7.0)
    whole = ss.train(MODEL, TASK, method=ss.GradientFlow(until=4000), seeds=3, record=grid)
    first = ss.train(
        MODEL, TASK, method=ss.GradientFlow(until=2002), seeds=3, record=grid[grid <= 2002]
    )
    second = ss.train(MODEL, TASK, start=first, method=ss.GradientFlow(until=4000), record=grid)
    joined = np.concatenate([first.loss, second.loss[:, 1:]], axis=1)
    np.testing.assert_array_equal(joined, whole.loss)


def test_another_method_goes_on_from_where_a_run_ended():
    first = ss.train(MODEL, TASK, init_scale=0.3, method=ss.GradientFlow(until=50), seeds=2)
    second = ss.train(MODEL, TASK, start=first, method=ss.GradientDescent(0.05, 1000))
    np.testing.assert_allclose(second.loss[:, 0], first.loss[:, -1])
    assert second.time[0] == 50
    assert second.time[-1] == pytest.approx(50 + 2 * 0.05 * 1000)
