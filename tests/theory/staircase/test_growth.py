"""Growth along the drive's singular vectors, and K of the first drop (T18)."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saddlescope.attention import MergedAttention, RandomStart, SeparateAttention
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import RegressionMoments
from saddlescope.theory import (
    dormant_staircase,
    fixed_points,
    modes,
    plateau_losses,
    runaway_times,
    singular_modes,
)
from saddlescope.theory.staircase._growth import single_head_delay
from saddlescope.theory.staircase.dormant import first_drop_delay


@pytest.mark.parametrize("seed", range(3))
def test_where_covariances_commute_it_is_the_closed_form(commuting: Any, seed: int) -> None:
    """κ/(c_1 ξ_1^{1/3}) with κ = 1.2533911927, by a run that knows nothing of modes."""
    task = commuting(3, seed)
    found = modes(task)
    first = found.order[0]
    assert found.order[0] == np.argmax(found.drop)
    expected = 1.2533911927 / (found.drive[first] * np.cbrt(found.amplitude[first]))
    delay = single_head_delay(task.moments(), float(found.drop.max()))
    assert delay == pytest.approx(expected, rel=1e-9)
    assert first_drop_delay(SeparateAttention(2), task) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("dimension", "seed"), [(2, 2), (3, 0), (3, 3)])
def test_k_is_the_limit_that_t18_says(
    crossing: Any, flow_of: Any, dimension: int, seed: int
) -> None:
    """1/(c_1 s) − t_h(s) of the flow itself; what is left falls with the square of s."""
    task = crossing(dimension, seed)
    keys, drives, queries = np.linalg.svd(task.moments().drive)
    levels = plateau_losses(task)
    assert levels[0] - levels[1] == pytest.approx(singular_modes(task).drop[0])
    delay = first_drop_delay(SeparateAttention(1), task)
    errors = []
    for size in (0.08, 0.04, 0.02):
        start = {"v": [size], "k": [[size * keys[:, 0]]], "q": [[size * queries[0]]]}
        flow = flow_of(task, {name: np.array(array) for name, array in start.items()})
        (half_way,) = flow.drop_times(levels[:2], 10 / (drives[0] * size))
        errors.append(abs(1 / (drives[0] * size) - half_way - delay))
    assert errors[-1] < 1e-3 * delay
    order = np.polyfit(np.log([0.08, 0.04, 0.02]), np.log(errors), 1)[0]
    assert order == pytest.approx(2, abs=0.05)


def test_runaway_times_are_where_an_ode_solver_says(crossing: Any) -> None:
    """The flow of v, k and q under a constant force, in the task's own coordinates."""
    task, model = crossing(3, 2), SeparateAttention(heads=2, rank=2)
    force = task.moments().drive
    starts = RandomStart(0.01).ensemble(model, task, np.arange(2))
    times = runaway_times(model, task, starts)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        v, (k, q) = state[0], state[1:].reshape(2, 2, 3)
        pull = q @ force.T
        return np.concatenate([[(k * pull).sum()], (v * pull).ravel(), (v * (k @ force)).ravel()])

    def far(_: float, state: np.ndarray) -> float:
        return abs(state[0]) - 1e3

    far.terminal = True  # type: ignore[attr-defined]
    for seed, head in np.ndindex(2, 2):
        begin = np.concatenate([np.ravel(starts[name][seed, head]) for name in "vkq"])
        options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-15, "events": far}
        path = solve_ivp(flow, (0, 1e9), begin, **options)
        expected = path.t[-1] + 1 / (np.linalg.norm(force, 2) * 1e3)
        np.testing.assert_allclose(times[seed, head], expected, rtol=1e-7)


def test_a_head_grows_along_the_drive_and_settles_on_the_fixed_point(
    crossing: Any, flow_of: Any
) -> None:
    """Its key turns from one to the other, by tens of degrees (T18, T19)."""
    turns = []
    for seed in (0, 1, 3):
        task = crossing(3, seed)
        drive = np.linalg.svd(task.moments().drive)[0][:, 0]
        rest = fixed_points(task).at([0])
        model = SeparateAttention(1)
        start = RandomStart(1e-6).weights(model, task, seed=0)
        (runaway,) = runaway_times(model, task, start)
        flow = flow_of(task, start)
        # v c_1 (t* − t) is one while it grows.
        waits = runaway - np.array([200.0, -2000.0]) / np.linalg.norm(task.moments().drive, 2)
        path = solve_ivp(
            flow.velocity,
            (0.0, waits[-1]),
            flow.start,
            method="LSODA",
            rtol=1e-10,
            atol=1e-16,
            t_eval=waits,
        )
        growing, settled = (flow.unpack(state)["k"][0, 0] for state in path.y.T)
        turns.append(angle(drive, rest.key_directions[0]))
        assert angle(growing, drive) < 0.5
        assert angle(settled, rest.key_directions[0]) < 1e-4
        assert flow.loss(path.y[:, -1]) == pytest.approx(rest.loss, abs=1e-12)
    assert max(turns) > 20


def angle(one: np.ndarray, other: np.ndarray) -> float:
    """Between two lines, in degrees."""
    cosine = abs(one @ other) / np.linalg.norm(one) / np.linalg.norm(other)
    return float(np.degrees(np.arccos(min(cosine, 1.0))))


def test_what_does_not_hold_says_what_does(crossing: Any) -> None:
    task, model = crossing(2, 0), SeparateAttention(heads=2)
    start = RandomStart(0.01).weights(model, task, seed=0)
    with pytest.raises(TheoryDoesNotApply, match=r"do not commute.*first_drop_times"):
        dormant_staircase(model, task, start)
    with pytest.raises(InvalidInput, match="must be separate"):
        first_drop_delay(MergedAttention(2), task)


def test_two_drives_that_are_the_largest_leave_the_delay_to_the_start() -> None:
    summary = np.array([[1.0, 0.3], [0.3, 0.6]])
    moments = RegressionMoments(9.0, np.eye(2), summary, np.diag([1.0, 2.0]))
    with pytest.raises(TheoryDoesNotApply, match="two singular values"):
        single_head_delay(moments, 1.0)


def test_a_head_that_rests_on_a_saddle_has_no_half_way() -> None:
    """It grows along e_1 and stays there, with less than half of the largest drop."""
    moments = RegressionMoments(30.0, np.diag([1.1, 1.0]), np.diag([10.0, 0.1]), np.eye(2))
    with pytest.raises(TheoryDoesNotApply, match="rests before the loss is half-way"):
        single_head_delay(moments, 1.0 / 0.1)
