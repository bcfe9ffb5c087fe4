"""What the figures of learning rates and of dormant heads compute, on cases known by hand."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.figures.beyond import drop_time_law, stability
from saddlescope.figures.beyond.particles import Potential
from saddlescope.figures.zhang.staircase import STAIRCASE
from saddlescope.task import InContextRegression
from saddlescope.theory import modes

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)


def test_a_descent_ends_at_the_flow_time_of_its_setting():
    plain = stability.descend(STAIRCASE, 0.5, 100)
    assert plain.method.end == 60_000
    own = STAIRCASE.replace(normalisation="none")
    assert stability.descend(own, 0.5, 100).method.end == round(60_000 / 31 ** (2 / 3))
    assert plain.record.grid(0, 60_000, whole=True)[-1] == 60_000


def test_heads_that_are_not_in_use_stay_at_zero_beside_a_fixed_point():
    weights = stability._beside(STAIRCASE, (0, 1))
    assert (weights["v"][0] != 0).tolist() == [True, True, False, False, False]
    assert not weights["k"][0, 2:].any()
    assert not weights["q"][0, 2:].any()


def test_rotations_bound_the_rate_beyond_long_contexts_only():
    bounds = stability.rotation_bounds((250, 1000), np.array([50.0]))
    np.testing.assert_allclose(bounds["rotation_bound"][0], 1.0)
    # T21: 6.940 against 5.996.
    np.testing.assert_allclose(bounds["rotation_bound"][1], 6.940 / 5.996, rtol=2e-4)
    np.testing.assert_allclose(bounds["lanczos_bound"], bounds["rotation_bound"], rtol=1e-12)


@pytest.mark.parametrize("seed", [2, 55, 7])
def test_a_dormant_head_moves_in_its_potential(seed):
    """v, k and q under the constant drive by an ODE solver; θ beside them."""
    model, law = SeparateAttention(heads=1), modes(TASK)
    start = RandomStart(0.01).weights(model, TASK, seed)
    potential = Potential.of(start, law)

    def velocity(_, state):
        v, k, q = state[1], state[2:6], state[6:]
        return np.concatenate([[v, law.drive @ (k * q)], v * law.drive * q, v * law.drive * k])

    state = np.concatenate([[0.0], start["v"], start["k"][0, 0], start["q"][0, 0]])
    course = solve_ivp(velocity, (0, 800), state, rtol=1e-10, atol=1e-15, max_step=1.0).y
    np.testing.assert_allclose(potential(course[0]), course[1] ** 2, rtol=1e-6, atol=1e-14)
    turns = (course[1] * course[1, 0] < 0).any()
    assert (potential.turning_point is not None) == turns == (seed != 7)
    if turns:
        furthest = np.sign(course[1, 0]) * np.abs(course[0, course[0] * course[1, 0] > 0]).max()
        assert potential.turning_point == pytest.approx(furthest, rel=1e-4)


def test_the_distance_between_two_samples():
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.5, 3.5, 4.5, 5.5])
    assert drop_time_law._distance(one, other) == 0.5
    assert drop_time_law._distance(one, one) == 0.0
    np.testing.assert_allclose(drop_time_law._steps(2), [[0.0, 0.5], [0.5, 1.0]])
