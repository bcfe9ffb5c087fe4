"""The unrolled Runge–Kutta method against diffrax's."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.dynamics.methods._solver import UnrolledTsit5

# A damped pendulum.
TERM = diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -jnp.sin(y[0]) - 0.3 * y[1]]))
START = np.array([1.0, -0.5])


def one_step(width: float, term: diffrax.ODETerm = TERM) -> tuple:
    solver = UnrolledTsit5()
    one, y0 = jnp.asarray(1.0), jnp.asarray(START)
    slope = solver.init(term, 0.0, width, y0, one)
    return solver.step(term, jnp.asarray(0.0), jnp.asarray(width), y0, one, slope, False)


def test_a_step_is_diffrax_s() -> None:
    with jax.enable_x64(True):
        reference, y0 = diffrax.Tsit5(), jnp.asarray(START)
        state = reference.init(TERM, 0.0, 0.4, y0, None)
        end, error, dense, _, _ = reference.step(TERM, 0.0, 0.4, y0, None, state, False)
        y1, own_error, own_dense, slope, _ = one_step(0.4)
        np.testing.assert_allclose(y1, end, rtol=1e-14)
        np.testing.assert_allclose(own_error, error, rtol=1e-9, atol=1e-17)
        np.testing.assert_allclose(slope, TERM.vf(0.4, y1, None), rtol=1e-14)
        between = reference.interpolation_cls(t0=0.0, t1=0.4, **dense)
        for time in (0.0, 0.1, 0.37, 0.4):
            inside = UnrolledTsit5.interpolation_cls(t0=0.0, t1=0.4, **own_dense)
            np.testing.assert_allclose(inside.evaluate(time), between.evaluate(time), rtol=1e-13)


def test_the_local_error_falls_with_the_order() -> None:
    """At least as h⁶, as that of a method of fifth order."""
    growth, widths = diffrax.ODETerm(lambda t, y, args: y), np.array([0.4, 0.2, 0.1])
    with jax.enable_x64(True):
        ends = [np.asarray(one_step(float(width), growth)[0]) for width in widths]
    errors = [np.linalg.norm(y - START * np.exp(h)) for y, h in zip(ends, widths, strict=True)]
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] > 5.8
