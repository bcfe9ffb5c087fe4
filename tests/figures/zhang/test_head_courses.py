"""Figures 3 and 8: which head learns what and when, on values made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang import fig3, fig8
from saddlescope.task import InContextRegression
from saddlescope.theory import head_time_course, modes

TASK = InContextRegression([0.5, 0.3], context_length=31)
TIME = np.linspace(0.0, 200.0, 2001)


def two_heads():
    """Head 2 learns e1 and head 1 learns e2, each by T12 from a value of .1 and .06."""
    amplitude = modes(TASK).amplitude
    courses = [head_time_course(TASK, mode, size, TIME) for mode, size in ((0, 0.1), (1, 0.06))]
    values = np.stack([courses[1].value, -courses[0].value], axis=1)
    keys = np.zeros((len(TIME), 2, 2))
    keys[:, 0] = np.array([0.6, 0.8]) * courses[1].value[:, None]
    keys[:, 1, 0] = courses[0].value
    learned = np.stack(
        [course.value**3 / amplitude[mode] for mode, course in enumerate(courses)], axis=1
    )
    drops = [float(course.drop_time) for course in courses]
    return xr.Dataset(
        {
            "drop_time": (("seed", "drop"), [drops]),
            "head_of_drop": (("seed", "drop"), [[1.0, 0.0]]),
            "learned": (("seed", "time", "direction"), learned[None]),
            "key": (("seed", "time", "head", "direction"), keys[None]),
            "value": (("seed", "time", "head"), values[None]),
            "saturation": ("direction", np.cbrt(amplitude)),
        },
        coords={"time": TIME},
    )


def test_the_eigenvector_of_each_drop_and_the_angle_of_its_key():
    directions, cosines = fig3._directions(two_heads())
    assert directions.tolist() == [[0.0, 1.0]]
    np.testing.assert_allclose(cosines, [[1.0, 0.8]])


def test_a_head_that_follows_t12_has_no_error():
    data = two_heads()
    data["direction_of_drop"] = (("seed", "drop"), fig3._directions(data)[0])
    courses = np.array(fig3._followed(TASK, data.isel(seed=0)))
    # Followed from the first record above a fifth of the last value on.
    for course, head in zip(courses, (1, 0), strict=True):
        size = np.abs(data["value"].values[0, :, head])
        start = np.flatnonzero(np.isfinite(course))[0]
        assert size[start - 1] < 0.2 * size[-1] < size[start] * 1.001
    data["predicted_value"] = (("seed", "drop", "time"), courses[None])
    np.testing.assert_allclose(fig3._value_error(data), 0.0, atol=1e-6)
    data["value"][0, :, 1] *= 1.05
    assert fig3._value_error(data)[0, 0] == pytest.approx(0.05, rel=1e-3)


def test_values_are_sorted_by_when_they_grow():
    """Rank 2, four eigenvectors: head 3 grows first, head 1 second, the others never."""
    time = np.arange(0.0, 100.0)
    value = np.zeros((1, 100, 3))
    value[0, :, 2] = np.clip((time - 10) / 10, 0, 1) + np.clip((time - 30) / 10, 0, 0.5)
    value[0, :, 0] = np.clip((time - 50) / 10, 0, 1) + np.clip((time - 70) / 10, 0, 0.5)
    shortest = np.array([[0, 0, 0], [1, 0, 0], [1.5, 0, 0], [1.5, 1, 0], [1.5, 1.5, 0]])
    data = xr.Dataset(
        {
            "drop_time": (("seed", "drop"), [[15.0, 35.0, 55.0, 75.0]]),
            "value": (("seed", "time", "head"), value),
            "minimal_value": (("level", "head"), shortest),
        },
        coords={"time": time, "level": np.arange(5)},
    )
    by_growth = fig8._sorted_by_growth(data, rank=2)
    np.testing.assert_allclose(by_growth["value"].values[0, -1], [1.5, 1.5, 0.0])
    # Half of the value with one eigenvector, at drops 0 and 2 only.
    np.testing.assert_allclose(by_growth["growth_time"].values[0], [15.0, np.nan, 55.0, np.nan])
    assert by_growth["grown_values"].values[0].tolist() == [0, 1, 1, 2, 2]
    np.testing.assert_allclose(by_growth["plateau_value"].values[0], shortest)
