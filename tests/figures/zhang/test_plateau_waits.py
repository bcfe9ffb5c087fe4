"""Waits of heads on plateaus, on a head whose course is known."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang import plateau_waits
from saddlescope.figures.zhang.plateau_waits import aligned_start, aligned_waits
from saddlescope.task import InContextRegression
from saddlescope.theory import head_time_course, modes, plateau_losses

TASK = InContextRegression([0.5, 0.3], context_length=31)


def test_aligned_starts_put_a_head_on_each_eigenvector():
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((2, 2)))[0]
    task = InContextRegression(turn @ np.diag([0.3, 0.5]) @ turn.T, 31)
    start = aligned_start(task, 3, np.array([0.1, 0.2]))
    assert start["v"].tolist() == [[0.1, 0.1, 0.0], [0.2, 0.2, 0.0]]
    for head, eigenvalue in enumerate((0.5, 0.3)):
        key = start["k"][1, head, 0]
        np.testing.assert_allclose(task.covariance @ key, eigenvalue * key, atol=1e-15)
        assert np.linalg.norm(key) == pytest.approx(0.2)
    np.testing.assert_array_equal(start["k"], start["q"])
    assert not start["k"][:, 2].any()


def test_a_start_with_fewer_heads_than_eigenvectors():
    assert aligned_start(TASK, 1, np.array([0.1]))["k"].shape == (1, 1, 1, 2)


def aligned_run(bare_run):
    """Two heads on their eigenvectors by T12, and the loss falling where T7 has its levels."""
    time = np.linspace(0.0, 400.0, 4001)
    courses = [head_time_course(TASK, mode, 0.1, time) for mode in (0, 1)]
    values = np.stack([course.value for course in courses], axis=1)
    basis = modes(TASK).basis.T
    pairs = values[:, :, None, None] * basis[:, None]
    levels = plateau_losses(TASK)
    shares = [course.value**3 / modes(TASK).amplitude[mode] for mode, course in enumerate(courses)]
    loss = levels[0] - sum(
        step * (2 * share - share**2) for step, share in zip(-np.diff(levels), shares, strict=True)
    )
    weights = {"v": (("head",), values), "k": (("head", "rank", "dim"), pairs)}
    data = {name: (("seed", "time", *axes), array[None]) for name, (axes, array) in weights.items()}
    data["q"] = data["k"]
    data["loss"] = (("seed", "time"), loss[None])
    return bare_run(xr.Dataset(data, coords={"time": time}), TASK), courses


def test_waits_are_from_drop_to_drop_and_their_estimates_from_the_value_then(bare_run):
    run, courses = aligned_run(bare_run)
    data = aligned_waits(run)
    waits, estimates = data["aligned_wait"].values[0], data["aligned_estimate"].values[0]
    drops = np.cumsum(waits)
    # The loss of a sum of modes is midway where the mode has 1 - 1/√2 of its amplitude.
    for drop, course in zip(drops, courses, strict=True):
        share = np.interp(drop, course.time, course.value**3) / course.value[-1] ** 3
        assert share == pytest.approx(1 - np.sqrt(0.5), abs=0.01)
    size = np.interp(drops[0], run.time, courses[1].value)
    assert estimates[0] == pytest.approx(1 / (0.5**2 * 0.1), rel=1e-3)
    assert estimates[1] == pytest.approx(1 / (0.3**2 * size), rel=1e-3)


def test_the_speed_of_an_aligned_head_is_its_value_squared(bare_run):
    run, _ = aligned_run(bare_run)
    size, speed = plateau_waits._head(run, 0, 1, 1)
    np.testing.assert_allclose(speed, size**2)
    _, across = plateau_waits._head(run, 0, 1, 0)
    np.testing.assert_allclose(across, 0.0, atol=1e-15)
