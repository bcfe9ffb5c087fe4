"""Change points: on broken lines whose ends are known, and beside a fit of every pair."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.measure import change_point

TIME = np.arange(0.0, 3001.0, 30.0)


def broken(onset, end, before, after, time=TIME):
    return np.interp(np.log(np.maximum(time, 1)), np.log([onset, end]), [before, after])


@pytest.mark.parametrize("levels", [(0.0, -4.0), (-4.0, 0.0), (1e-9, 3e-9), (1e9, 2e9)])
def test_a_broken_line_is_found_exactly(levels):
    found = change_point(broken(420, 780, *levels), TIME)
    assert (found.onset, found.end) == (420, 780)
    np.testing.assert_allclose(
        (found.before, found.after), levels, rtol=1e-9, atol=1e-9 * max(map(abs, levels))
    )
    assert found.explained == pytest.approx(1)
    assert found.middle == pytest.approx(np.sqrt(420 * 780))
    assert found.is_abrupt()


def test_it_is_the_best_of_all_pairs_of_records():
    rng = np.random.default_rng(1)
    time = np.sort(rng.uniform(1, 100, 25))
    curve = broken(20, 40, 1, 0, time) + 0.2 * rng.normal(size=25)
    x, whole = np.log(time), ((curve - curve.mean()) ** 2).sum()
    best = np.inf
    for first in range(24):
        for last in range(first + 1, 25):
            way = np.clip((x - x[first]) / (x[last] - x[first]), 0, 1)
            design = np.stack([np.ones(25), way], axis=1)
            rest = curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]
            best = min(best, (rest**2).sum())
    assert 1 - change_point(curve, time).explained == pytest.approx(best / whole, rel=1e-9)


def test_slow_ways_and_noise_are_not_abrupt():
    assert not change_point(broken(120, 420, 0, -1), TIME).is_abrupt()
    assert not change_point(np.random.default_rng(0).normal(size=TIME.size), TIME).is_abrupt()


def test_a_curve_that_stays_has_no_change():
    found = change_point(np.full(TIME.size, 0.3), TIME)
    assert np.isnan(found.onset)
    assert (found.explained, found.is_abrupt()) == (0, False)


def test_what_is_not_finite_or_at_time_0_is_left_out():
    curve = broken(420, 780, 0, -4)
    curve[0], curve[50] = 1e6, np.nan
    assert change_point(curve, TIME).onset == 420


@pytest.mark.parametrize(
    ("curve", "time", "field"),
    [([[1.0, 2.0]], [1, 2], "curve.shape"), ([1.0, 2.0, 3.0], [-1, 0, 1], "curve")],
)
def test_what_has_no_change_point_is_refused(curve, time, field):
    with pytest.raises(InvalidInput, match=f"^{field} = "):
        change_point(curve, time)
