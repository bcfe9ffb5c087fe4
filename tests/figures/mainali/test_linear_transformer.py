"""Half-times, bins and shares of the linear transformer's figures, on curves that are known."""

import numpy as np
import xarray as xr

from saddlescope.figures.mainali import linear_transformer_run, mt1, mt3, mt4
from saddlescope.theory import logistic_modes


def test_half_times_are_those_of_the_logistic():
    time = np.linspace(0.0, 60.0, 1500)
    exact = logistic_modes((1.0, 0.4), 31, 1e-3, time)
    data = xr.Dataset(
        {
            "amplitude": (("time", "mode"), exact.amplitude),
            "rest_amplitude": ("mode", exact.limit),
        },
        coords={"time": time},
    )
    half_times = linear_transformer_run.half_times(data)
    np.testing.assert_allclose(half_times, exact.half_time, rtol=1e-5)
    never = data.assign(rest_amplitude=("mode", 3 * exact.limit))
    assert np.isnan(linear_transformer_run.half_times(never)).all()


def test_columns_are_read_at_other_times():
    known = np.array([0.0, 1.0, 2.0])
    columns = np.array([[0.0, 10.0], [1.0, 20.0], [4.0, 30.0]])
    values = linear_transformer_run._at(np.array([0.5, 1.5]), known, columns)
    np.testing.assert_allclose(values, [[0.5, 15.0], [2.5, 25.0]])


def test_averages_are_the_means_between_edges():
    time = np.linspace(0.0, 4.0, 401)
    edges = np.array([0.0, 1.0, 3.0, 4.0])
    np.testing.assert_allclose(mt4._averages(time, time, edges), [0.5, 2.0, 3.5])
    # The mean of t² between a and b is (a² + ab + b²)/3; trapezia err by step²/6.
    exact = (edges[:-1] ** 2 + edges[:-1] * edges[1:] + edges[1:] ** 2) / 3
    np.testing.assert_allclose(mt4._averages(time, time**2, edges), exact, atol=0.01**2)


def test_averages_take_noise_away():
    generator = np.random.default_rng(0)
    time = np.linspace(0.0, 100.0, 10_001)
    noisy = 1 + generator.standard_normal(len(time))
    means = mt4._averages(time, noisy, np.linspace(0, 100, 11))
    # A thousand points a bin.
    assert np.abs(means - 1).max() < 4 / np.sqrt(1000)


def test_the_norm_of_all_weights_together():
    ones, twos = np.ones((3, 2, 2)), np.full((3, 2, 2), 2.0)
    np.testing.assert_allclose(mt4._norm(ones, twos), np.sqrt(4 + 16))


def test_the_largest_entry_off_the_diagonal():
    matrices = np.array([np.diag([2.0, -4.0]), [[1.0, -0.5], [0.1, 2.0]]])
    np.testing.assert_allclose(mt1._off_diagonal(matrices), [0.0, 0.25])


def test_stages_are_found_in_the_logarithm_of_time():
    time = np.concatenate([[0.0], np.geomspace(1, 1e4, 400)])
    loss = np.ones_like(time)
    loss[1:] -= 0.6 / (1 + (100 / time[1:]) ** 8) + 0.3 / (1 + (2000 / time[1:]) ** 8)
    drops, plateaus = mt3._stages_in_logarithmic_time(time, loss)
    np.testing.assert_allclose(drops, [100, 2000], rtol=0.01)
    np.testing.assert_allclose(plateaus, [1.0, 0.4, 0.1], atol=1e-3)
