"""The one crossing: on curves whose crossings are known."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.measure import drop_times, first_crossing, first_record

LEVELS = np.array([0.9, 0.5, 0.1])


def logistic(x):
    """From 1 down to 0."""
    return (1 - np.tanh(x / 2)) / 2


@pytest.mark.parametrize(
    "time",
    [
        np.linspace(0, 100, 401),
        np.sort(np.random.default_rng(0).uniform(0, 100, 600)),
        np.geomspace(1, 1e4, 1200),
    ],
    ids=["even", "uneven", "logarithmic"],
)
def test_the_levels_of_a_sigmoid(time):
    """1/(1 + e^((t − 50)/4)) is at L when t = 50 + 4 ln(1/L − 1)."""
    curve = logistic((time - 50) / 4)
    exact = 50 + 4 * np.log(1 / LEVELS - 1)
    near = np.diff(time)[np.searchsorted(time, exact) - 1]
    # A monotone cubic's slopes err at second order, its crossings by less than (step)³/(scale)².
    np.testing.assert_allclose(first_crossing(curve, LEVELS, time), exact, atol=near.max() ** 3 / 8)
    rising = first_crossing(1 - curve, 1 - LEVELS, time, rising=True)
    np.testing.assert_allclose(rising, first_crossing(curve, LEVELS, time), rtol=1e-12)


def test_a_straight_line_is_exact_whatever_the_steps():
    time = np.array([0.0, 0.1, 5.0, 7.0, 20.0])
    np.testing.assert_allclose(first_crossing(10 - time, [9.0, 4.0, -3.0], time), [1.0, 6.0, 13.0])


def test_the_logarithm_of_time_would_give_the_same_time():
    """At 200 records a decade, interpolation in t and in ln t differ by less than 1e-6 of t."""
    time = np.geomspace(1e-4, 1e6, 2000)
    curve = 1 / (1 + (time / 321.0) ** 2)
    plain, logarithmic = (
        first_crossing(curve, LEVELS, time),
        first_crossing(curve, LEVELS, np.log(time)),
    )
    np.testing.assert_allclose(plain, np.exp(logarithmic), rtol=1e-6)


def test_levels_broadcast_with_the_axes_in_front():
    curves = np.stack([[5.0, 3.0, 1.0], [4.0, 2.0, 0.0]])
    assert first_crossing(curves, 2.5).shape == (2,)
    np.testing.assert_array_equal(first_crossing(curves, [3.0, 2.0]), [1.0, 1.0])
    every = first_crossing(curves[:, None], np.array([3.0, 2.0, 1.0]))
    np.testing.assert_array_equal(every[:, 1:][1], [1.0, first_crossing(curves[1], 1.0)])
    assert every.shape == (2, 3)
    assert first_crossing(curves[0], 3.0).shape == ()


def test_touching_a_level_is_crossing_it():
    assert first_crossing([3.0, 2.0, 1.0, 2.0, 3.0], 1.0) == 2.0
    # Where a curve comes to rest on a level its root is double: half of the digits are left.
    assert first_crossing([3.0, 1.0, 1.0, 1.0, 0.0], 1.0) == pytest.approx(1.0, abs=1e-7)
    assert np.isnan(first_crossing([3.0, 2.0, 1.0, 2.0, 3.0], 0.999))


def test_only_the_first_crossing_counts():
    assert 0 < first_crossing([2.0, 0.0, 2.0, 0.0], 1.0) < 1
    assert 0 < first_crossing([0.0, 2.0, 0.0, 2.0], 1.0, rising=True) < 1


def test_what_starts_at_a_level_or_beyond_it_never_crosses_it():
    falling = [1.0, 0.5, 2.0, 0.2]
    assert np.isnan(first_crossing(falling, [1.0, 3.0])).all()
    assert np.isnan(first_crossing(np.negative(falling), -1.0, rising=True))
    assert first_record(falling, [1.0, 3.0, 0.5, 0.1]).tolist() == [-1, -1, 1, -1]


def test_nothing_is_known_after_divergence():
    curve = np.array([4.0, 3.0, 2.0, np.nan, np.nan])
    assert first_crossing(curve, 2.5) == pytest.approx(1.5)
    assert np.isnan(first_crossing(curve, 1.0))
    assert first_crossing([4.0, 3.0, 2.0, np.inf], 2.5) == pytest.approx(1.5)
    assert np.isnan(first_crossing([np.nan, np.nan], 1.0))
    # Missing records are left out; a curve first seen beyond the level started beyond it.
    assert first_crossing([4.0, np.nan, 2.0], 3.0) == pytest.approx(1.0)
    assert np.isnan(first_crossing([np.nan, 1.0, 0.0], 2.0))
    assert np.isnan(first_crossing(curve, np.nan))


def test_a_crossing_lies_before_its_record():
    curve, level = logistic(np.linspace(-4, 4, 30)), 0.3
    record = int(first_record(curve, level))
    assert curve[record - 1] > level >= curve[record]
    assert record - 1 < first_crossing(curve, level) <= record


def test_steps_are_crossed_between_their_records():
    """A drop narrower than the records: a spline would swing out of them, a monotone cubic not."""
    curve = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(first_crossing(curve, 0.5), 2.5)
    assert np.isnan(first_crossing(curve, -0.01))
    assert np.isnan(first_crossing(curve, 1.01))


def test_drops_lie_midway_between_levels():
    time = np.linspace(0, 40, 4001)
    loss = 1 + 2 * logistic(time - 10) + logistic(time - 30)
    both = drop_times(np.stack([loss, loss[::-1]]), [4.0, 2.0, 1.0], time)
    np.testing.assert_allclose(both[0], [10, 30], atol=1e-6)
    assert np.isnan(both[1]).all()


def test_one_record_crosses_nothing():
    assert np.isnan(first_crossing([[1.0], [0.0]], 0.5)).all()


def test_tensors_are_read():
    torch = pytest.importorskip("torch")
    curve = torch.tensor([2.0, 1.0, 0.0], dtype=torch.bfloat16, requires_grad=True)
    assert first_crossing(curve, torch.tensor(0.5), torch.arange(3)) == 1.5


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("abc", 1.0), "curve"),
        ((3.0, 1.0), "curve.shape"),
        (([], 1.0), "curve.shape"),
        (([1.0, 0.0], "half"), "level"),
        (([[1.0, 0.0]] * 2, [1.0, 2.0, 3.0]), "level"),
        (([1.0, 0.0], 0.5, [0.0, 1.0, 2.0]), "time.shape"),
        (([1.0, 0.0], 0.5, [1.0, 1.0]), "time"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, field):
    with pytest.raises(InvalidInput) as wrong:
        first_crossing(*arguments)
    assert str(wrong.value).startswith(f"{field} ")
