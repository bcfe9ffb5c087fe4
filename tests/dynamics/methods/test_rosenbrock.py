"""Rodas5P beside exact solutions: its order, its interpolation, and steps far beyond stability."""

from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

from saddlescope.dynamics.methods._jacobian import solve_whole
from saddlescope.dynamics.methods._rosenbrock import _GAMMA, Rodas5P

# A damped pendulum.
START = np.array([1.0, -0.5])
WIDTHS = np.array([0.4, 0.2, 0.1])


def pendulum(t: object, y: jax.Array, args: object) -> jax.Array:
    return jnp.stack([y[1], -jnp.sin(y[0]) - 0.3 * y[1]])


def exact(time: float) -> np.ndarray:
    return scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0]) - 0.3 * y[1]],
        (0.0, time),
        START,
        method="DOP853",
        rtol=1e-13,
        atol=1e-15,
    ).y[:, -1]


def one_step(width: float, field=pendulum, start: np.ndarray = START) -> tuple:
    solver, term, y0 = Rodas5P(), diffrax.ODETerm(field), jnp.asarray(start)
    slope = solver.init(term, 0.0, width, y0, None)
    solving = partial(solve_whole, lambda y: field(0.0, y, None))
    return solver.step(term, jnp.asarray(0.0), jnp.asarray(width), y0, solving, slope, False)


def rate_of(errors: list[float]) -> float:
    return float(np.polyfit(np.log(WIDTHS), np.log(errors), 1)[0])


def test_errors_fall_with_the_order() -> None:
    """The local error as h⁶, its estimate and what lies between as h⁵."""
    ends, estimates, between = [], [], []
    with jax.enable_x64(True):
        for width in WIDTHS:
            y1, error, dense, slope, _ = one_step(float(width))
            inside = Rodas5P.interpolation_cls(t0=0.0, t1=width, **dense)
            ends.append(np.linalg.norm(np.asarray(y1) - exact(width)))
            estimates.append(np.linalg.norm(np.asarray(error)))
            between.append(
                np.linalg.norm(np.asarray(inside.evaluate(0.4 * width)) - exact(0.4 * width))
            )
            np.testing.assert_allclose(inside.evaluate(width), y1, rtol=1e-15)
            np.testing.assert_allclose(inside.evaluate(0.0), START, rtol=1e-15)
            np.testing.assert_allclose(slope, pendulum(None, y1, None), rtol=1e-15)
    assert rate_of(ends) > 5.8
    assert rate_of(estimates) > 4.8
    assert rate_of(between) > 4.8


def test_a_stiff_part_is_gone_after_one_step() -> None:
    with jax.enable_x64(True):
        y1, error, *_ = one_step(1.0, lambda t, y, args: jnp.array([-1e9, -1.0]) * y)
    assert abs(float(y1[0])) < 1e-6
    assert abs(float(y1[1]) / START[1] - np.exp(-1.0)) < 1e-4
    assert np.isfinite(np.asarray(error)).all()


def test_a_step_whose_matrix_cannot_be_solved_with_is_refused() -> None:
    with jax.enable_x64(True):
        _, error, *_ = one_step(1.0, lambda t, y, args: y / _GAMMA)
    assert np.isinf(np.asarray(error)).all()
