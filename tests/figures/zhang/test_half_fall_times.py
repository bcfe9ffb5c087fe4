"""When the losses of a mixture fall and how fast its weights grow, on exponentials."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang.mixture import first_rates, half_fall_times

TIME = np.linspace(0.0, 40.0, 4001)


def curves(rows):
    return xr.Dataset(
        {"training": (("share", "seed", "time"), np.array(rows))}, coords={"time": TIME}
    )


def test_half_way_from_the_start_to_the_least_value():
    dip = 1 - 0.8 * np.clip(TIME / 20, 0, 1) + 0.5 * np.clip((TIME - 20) / 20, 0, 1)
    flat = 1 - 5e-4 * TIME / 40  # falls by less than a thousandth: it does not fall
    times = half_fall_times(curves([[dip, flat]]), "training")
    assert times[0, 0] == pytest.approx(10.0)
    assert np.isnan(times[0, 1])


def test_the_rate_is_half_of_the_exponential_depth():
    """While depth is between 1e-7 and 1e-3 the loss falls as the square of the weights."""
    depth = np.minimum(1e-9 * np.exp(2 * 0.6 * TIME), 0.5)
    quiet = np.full_like(TIME, 1e-9)
    data = curves([[1 - depth + depth[0], 1 - quiet]])
    rates = first_rates(data)
    assert rates[0, 0] == pytest.approx(0.6, rel=0.01)
    assert np.isnan(rates[0, 1])
