"""T12: one head on one eigenvector."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from saddlescope.attention import EigenvectorStart, SeparateAttention
from saddlescope.errors import InvalidInput
from saddlescope.task import InContextRegression
from saddlescope.theory import head_time_course, modes


@pytest.mark.parametrize("start", [0.01, 0.2, 1.0, 3.0, -0.5])
@pytest.mark.parametrize("direction", [0, 3])
def test_implicit_solution_against_the_equation(paper, direction, start):
    task_modes = modes(paper)
    drive, saturation = task_modes.drive[direction], task_modes.saturation[direction]
    times = np.linspace(0, 3 / (drive * abs(start)), 60)
    solved = solve_ivp(
        lambda _, v: drive * v**2 - saturation * v**5,
        (0, times[-1]),
        [start],
        method="DOP853",
        rtol=1e-13,
        atol=1e-15,
        t_eval=times,
    )
    course = head_time_course(paper, direction, start, times)
    np.testing.assert_allclose(course.value, solved.y[0], rtol=1e-9)


@pytest.mark.parametrize("start", [-1e5, 1e5])
def test_a_huge_head_shrinks_as_a_power_of_time(paper, start):
    saturation = modes(paper).saturation[0]
    times = np.array([0, 0.1, 1, 1e4]) / (saturation * start**4)
    course = head_time_course(paper, 0, start, times)
    # The drive is left out: it is a share ξ/v³ of the whole, below 1e-10 here.
    expected = start / (1 + 4 * saturation * start**4 * times) ** 0.25
    np.testing.assert_allclose(course.value, expected, rtol=1e-7)


def test_the_loss_against_the_full_flow(paper, flow_of):
    weights = EigenvectorStart(1, 0.05).weights(SeparateAttention(1), paper, seed=0)
    times = np.linspace(0, 500, 40)
    course = head_time_course(paper, 1, 0.05, times)
    losses = flow_of(paper, weights).losses(times, rtol=1e-12)
    np.testing.assert_allclose(1 - course.fall, losses, atol=1e-9)


def test_a_commuting_task(commuting, flow_of):
    task = commuting(3, seed=2)
    weights = EigenvectorStart(2, 0.1).weights(SeparateAttention(1), task, seed=0)
    course = head_time_course(task, 2, 0.1, np.linspace(0, 100, 30))
    losses = flow_of(task, weights).losses(course.time, rtol=1e-12)
    np.testing.assert_allclose(modes(task).label_power - course.fall, losses, atol=1e-8)


def test_drop_time_and_plateau(paper):
    course = head_time_course(paper, 0, 1e-3, [0.0])
    half = head_time_course(paper, 0, 1e-3, [course.drop_time])
    assert half.fall[0] == pytest.approx(modes(paper).drop[0] / 2, rel=1e-9)
    assert course.plateau == pytest.approx(1 / (0.16 * 1e-3))
    # The plateau is the leading order: what is left is of the order of one rise.
    assert course.drop_time == pytest.approx(course.plateau, rel=2e-3)


def test_a_head_of_the_wrong_sign_learns_nothing(paper):
    course = head_time_course(paper, 0, -0.5, np.geomspace(1, 1e6, 20))
    assert (course.value < 0).all()
    assert abs(course.value[-1]) < 1e-5
    assert course.drop_time is None
    assert course.plateau is None


@given(
    start=st.floats(1e-4, 3),
    time=st.floats(0, 1e6),
    eigenvalue=st.floats(0.05, 5),
    length=st.integers(1, 1000),
)
def test_values_stay_between_start_and_rest(start, time, eigenvalue, length):
    task = InContextRegression([eigenvalue], length)
    course = head_time_course(task, 0, start, [0.0, time])
    low, high = sorted([start, course.saturation])
    assert course.value[0] == pytest.approx(start, rel=1e-12)
    assert low * (1 - 1e-12) <= course.value[1] <= high * (1 + 1e-12)


def test_a_head_at_rest_stays(paper):
    rest = float(np.cbrt(modes(paper).amplitude[0]))
    np.testing.assert_allclose(head_time_course(paper, 0, rest, [0.0, 1e5]).value, rest)


@pytest.mark.parametrize(
    ("direction", "start", "times", "field"),
    [
        (4, 0.1, [0.0], "subset"),
        (0, 0.0, [0.0], "start"),
        (0, float("nan"), [0.0], "start"),
        (0, 0.1, [-1.0], "times"),
    ],
)
def test_bad_input_is_named(paper, direction, start, times, field):
    with pytest.raises(InvalidInput, match=field):
        head_time_course(paper, direction, start, times)
