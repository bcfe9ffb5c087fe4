"""The paths of runs between fixed points, and their rests, on distances made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.beyond import descents, noise_and_shift, optimisers, rotation, saddle_graph
from saddlescope.task import InContextRegression


def test_fixed_points_are_visited_one_after_another():
    """Near point 0, away, near 2, at 2 again after a detour to nothing, then 1."""
    distance = np.full((8, 3), 0.5)
    for record, point in ((0, 0), (1, 0), (3, 2), (5, 2), (7, 1)):
        distance[record, point] = 0.01
    assert rotation._visits(distance) == [0, 2, 1]
    assert rotation._visits(np.full((4, 3), 0.06)) == []


def test_the_rest_of_a_staircase_and_of_a_slide():
    time = np.linspace(0.0, 100.0, 1001)
    levels = np.array([1.0, 0.5, 0.0])
    stair = np.interp(time, [0, 10, 20, 80, 90, 100], [1, 1, 0.5, 0.5, 0, 0])
    slide = np.interp(time, [0, 10, 90, 100], [1, 1, 0, 0])
    rest = descents._rest(time, np.stack([stair, slide]), levels)
    # Sixty of some eighty units of time at the level; a slide passes .04 of .95 of its fall.
    assert rest[0] == pytest.approx(60 / 79, abs=0.02)
    assert rest[1] == pytest.approx(0.04 / 0.95, abs=0.01)


def test_first_drops_are_midway_between_the_first_two_levels(bare_run):
    time = np.linspace(0.0, 10.0, 101)
    loss = np.stack([1 - time / 10, 1 - time / 20])
    run = bare_run(xr.Dataset({"loss": (("seed", "time"), loss)}, coords={"time": time}))
    times = descents.first_drop_times(run, np.array([1.0, 0.6, 0.0]))
    np.testing.assert_allclose(times, [2.0, 4.0])


def test_the_power_of_the_scale_in_the_first_drop_s_time():
    scale = np.array([0.01, 0.03, 0.1])
    times = np.stack([5 / scale, 7 * scale**-0.5], axis=1)
    data = xr.Dataset({"flow_first_drop": (("scale", "seed"), times)}, coords={"scale": scale})
    np.testing.assert_allclose(optimisers._exponents(data, "flow"), [-1.0, -0.5])


def test_plateaus_that_last_long_enough_to_have_a_floor():
    data = xr.Dataset(
        {"drop_time": (("case", "seed", "drop"), [[[10.0, 100.0, 102.0], [10.0, 97.0, np.nan]]])},
        coords={"time": [0.0, 100.0]},
    )
    # From 100 to 102 is 2 % of the time then; from 97 to the end, 3 %.
    assert noise_and_shift._lasting(data).tolist() == [[[True, False, False], [True, False, False]]]


def test_a_plateau_is_nearest_to_the_point_whose_predictions_it_makes(bare_run):
    task = InContextRegression([0.6, 0.3], 31)
    nodes = np.stack([np.zeros((2, 2)), np.diag([1.0, 0.0]), np.diag([1.0, 2.0])])
    time = np.arange(0.0, 30.0)
    maps = np.repeat(nodes, 10, axis=0)[None] + 1e-3
    run = bare_run(
        xr.Dataset(
            {"effective_map": (("seed", "time", "dim", "query_dim"), maps)}, coords={"time": time}
        ),
        task,
    )
    data = xr.Dataset(
        {
            "drop_time": (("seed", "drop"), [[10.0, 20.0]]),
            "plateau_loss": (("seed", "level"), [[1.0, 0.5, 0.2]]),
            "path": ("level", [0, 1, 2]),
        },
        coords={"time": time},
    )
    # No point is left beside the path: put a fourth one far away.
    far = np.concatenate([nodes, [np.diag([9.0, 9.0])]])
    visits = saddle_graph._with_visits(data, run, far)
    assert visits["visited"].values.tolist() == [[0.0, 1.0, 2.0]]
    assert visits["visit_distance"].max() < 1e-5
    np.testing.assert_allclose(visits["map_trace"].values[0, [0, 10, 20]], [0.002, 1.002, 3.002])
    # E(ŷ − ŷ')² of maps a diagonal d apart is Σ d_i² λ_i times the summary's entry.
    moments = task.moments()
    apart = np.diag([1.0, 0.0]) + 1e-3
    exact = (apart * (moments.summary @ apart @ moments.query)).sum()
    assert visits["path_distance"].values[0, 10, 0] == pytest.approx(exact)
    assert visits["other_distance"].min() > 10 * exact
