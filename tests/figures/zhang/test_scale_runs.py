"""How fast starts of several scales learn, on exponentials."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang import init_scale, scale_runs

TIME = np.concatenate([[0.0], np.geomspace(1e-4, 50, 2000)])


def test_half_of_the_excess_is_lost_after_ln_2_over_the_rate():
    rates = np.array([0.5, 2.0])
    loss = 0.2 + 0.8 * np.exp(-rates[:, None] * TIME)
    half_times = scale_runs.half_times(TIME, loss, 0.2)
    # Records lie .7 % apart; a cubic is far better than that.
    np.testing.assert_allclose(half_times, np.log(2) / rates, rtol=1e-5)


def test_what_never_loses_half_has_no_time():
    loss = np.linspace(1.0, 0.8, len(TIME))[None]
    assert np.isnan(scale_runs.half_times(TIME, loss, 0.2)).all()


def test_the_highest_rate_is_that_of_the_fastest_stretch():
    slow_first = np.where(TIME < 1, -0.1 * TIME, -0.1 - 3.0 * (TIME - 1))
    loss = 0.2 + np.exp(slow_first)
    (rate,) = scale_runs._highest_rates(TIME, loss[None], 0.2)
    assert rate == pytest.approx(3.0, rel=1e-3)


def test_rounding_at_the_end_is_no_decay():
    """Once a thousandth is left the excess may jump to nothing: that is not counted."""
    loss = 0.2 + np.exp(-TIME)
    loss[TIME > 10] = 0.2
    (rate,) = scale_runs._highest_rates(TIME, loss[None], 0.2)
    assert rate == pytest.approx(1.0, rel=1e-3)


def test_the_share_of_the_excess_that_is_left():
    data = xr.Dataset(
        {"loss": ("time", [1.0, 0.6, 0.2]), "other": ("time", [1.0, 0.4, 0.2]), "excess": 0.8}
    )
    np.testing.assert_allclose(init_scale._left(data), [1.0, 0.5, 0.0])
    np.testing.assert_allclose(init_scale._left(data, "other"), [1.0, 0.25, 0.0])


def test_drops_of_the_first_seed_of_separate_attention_are_measured():
    time = np.linspace(0, 40, 4001)
    step = (1 - np.tanh((time - 10) / 2)) / 2 + (1 - np.tanh((time - 30) / 2)) / 2
    loss = np.zeros((2, 1, 2, len(time)))
    loss[1, 0, 0] = step
    data = xr.Dataset(
        {
            "loss": (("model", "scale", "seed", "time"), loss),
            "level_loss": ("level", [2.0, 1.0, 0.0]),
        },
        coords={"model": ["merged", "separate"], "time": time},
    )
    np.testing.assert_allclose(init_scale._measured_drops(data), [[10, 30]], atol=1e-6)
