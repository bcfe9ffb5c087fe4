"""A head that learns a mode beside what it holds, against the flow of that head."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlescope as ss
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.staircase._pickup import rise_beside, rise_from_rest

TASK = ss.InContextRegression([0.4, 0.3, 0.1], 31)


def flow(start: np.ndarray, pairs: int, until: float, at: np.ndarray) -> np.ndarray:
    """v, k, q of one head under T3's flow, [n, T]."""
    of_task = modes(TASK)
    drive, saturation = np.diag(of_task.drive), np.outer(of_task.summary, of_task.query_eigenvalues)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        v, k, q = state[0], *state[1:].reshape(2, pairs, -1)
        force = drive - saturation * (v * k.T @ q)
        return np.concatenate(
            [[(k * (q @ force.T)).sum()], *(v * q @ force.T, v * k @ force)], None
        )

    path = solve_ivp(velocity, (0, until), start, "LSODA", at, rtol=1e-11, atol=1e-14)
    states: np.ndarray = path.y
    return states


@pytest.mark.parametrize("small", [1e-3, 1e-5])
def test_the_next_mode_of_a_head_comes_when_its_flow_says(small: float) -> None:
    of_task = modes(TASK)
    held, drive, amplitude = of_task.amplitude[0], of_task.drive[1], of_task.amplitude[1]
    value = np.cbrt(held)
    pairs = np.diag([value, small, 1e-9])
    start = np.concatenate([[value], pairs, pairs], None)
    begin = np.array([value * small**2])
    rise = rise_beside(np.array([held]), begin, float(drive), float(amplitude))
    times = np.array([0.0, rise.half[0], rise.felt[0] + 200])
    states = flow(start, 3, times[-1], times)
    shares = [v * k[1] * q[1] / amplitude for v, k, q in heads(states, 3, pair=1)]
    # What is held follows within a time of 1/c, not at once: the rise comes as much earlier.
    assert shares[1] == pytest.approx(1 - np.sqrt(0.5), abs=1e-2)
    # Meanwhile a third mode has grown by θ, and by what came after.
    grown = np.log(heads(states, 3, pair=2)[-1][1][2] / 1e-9) / of_task.drive[2]
    rest = np.cbrt(held + amplitude) * 200
    assert grown == pytest.approx(rise.theta[0] + rest, rel=1e-3)


def test_of_a_head_of_its_own_the_rise_is_that_of_one_head() -> None:
    of_task = modes(TASK)
    drive, amplitude, small = float(of_task.drive[0]), float(of_task.amplitude[0]), 1e-3
    pairs = [[small, 0, 0], [0, 0, 1e-9]]
    start = np.concatenate([[small], pairs, pairs], None)
    runaway = 1 / (drive * small)
    rise = rise_from_rest(np.array([runaway]), np.array([small**2]), drive, amplitude)
    times = np.array([0.0, rise.half[0], rise.felt[0] + 200])
    states = flow(start, 2, times[-1], times)
    shares = [v * k[0] * q[0] / amplitude for v, k, q in heads(states, 2, pair=0)]
    assert shares[1] == pytest.approx(1 - np.sqrt(0.5), abs=1e-4)
    grown = np.log(heads(states, 2, pair=1)[-1][1][2] / 1e-9) / of_task.drive[2]
    assert grown == pytest.approx(rise.theta[0] + np.cbrt(amplitude) * 200, rel=1e-4)


def heads(states: np.ndarray, pairs: int, pair: int) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """The value, and the key and the query of a pair along the modes, at every time."""
    own = states.T[:, 1:].reshape(-1, 2, pairs, 3)[:, :, pair]
    return [(v, *both) for v, both in zip(states[0], own, strict=True)]
