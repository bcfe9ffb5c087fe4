"""Stages of curves whose plateaus and drops are known beforehand."""

import json
from itertools import pairwise

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.measure import Drop, Plateau, Stages, stages

# The plateau losses of THEORY T7 at λ = (.4, .3, .2, .1), N = 31, and drops as a flow takes them:
# each wider than the one before, and short against the plateaus around it.
LEVELS = np.array([1.0, 0.64058, 0.37737, 0.20980, 0.13600])
TIMES = np.array([1200.0, 3100.0, 9000.0, 30000.0])
WIDTHS = np.array([8.0, 15.0, 30.0, 100.0])
UNTIL = 60000.0


def staircase(time, levels=LEVELS, times=TIMES, widths=WIDTHS):
    """Logistic drops at `times`; each crosses midway between its levels at its own time."""
    steps = 1 / (1 + np.exp(np.clip((times - time[:, None]) / widths, -500, 500)))
    return levels[0] + steps @ np.diff(levels)


def drop_times(found):
    return np.array([drop.time for drop in found.drops])


def plateau_levels(found):
    return np.array([plateau.level for plateau in found.plateaus])


def sampling_steps(time, at):
    """The distance between the two samples that enclose each moment."""
    return np.diff(time)[np.searchsorted(time, at) - 1]


def spacings(points):
    rng = np.random.default_rng(7)
    return {
        "linear": np.linspace(0, UNTIL, points),
        "log": np.geomspace(1, UNTIL, points),
        "log from zero": np.append(0, np.geomspace(1, UNTIL, points - 1)),
        "uneven": np.sort(np.append(rng.uniform(0, UNTIL, points - 2), [0, UNTIL])),
        "begins late": 1e7 + np.linspace(0, UNTIL, points),
    }


@pytest.mark.parametrize("spacing", spacings(3))
@pytest.mark.parametrize("points", [300, 3000, 100_000])
def test_a_clean_staircase_is_found_to_the_sampling_resolution(spacing, points):
    time = spacings(points)[spacing]
    origin = 1e7 if spacing == "begins late" else 0.0
    measured = stages(staircase(time - origin), time)
    assert len(measured.drops) == 4
    # The curve is a straight line between samples, and nowhere else does it differ from the truth.
    error = np.abs(drop_times(measured) - origin - TIMES)
    assert (error <= sampling_steps(time, TIMES + origin)).all()
    # The plateaus are flat but for tails of logistic drops.
    np.testing.assert_allclose(plateau_levels(measured), LEVELS, atol=1e-3)


def test_drop_times_are_interpolated_between_samples():
    time = np.linspace(0, UNTIL, 30_001)  # the narrowest drop takes 18 samples from 10 to 90 %
    error = np.abs(drop_times(stages(staircase(time), time)) - TIMES)
    # Linear interpolation of a logistic curve is exact at its centre up to its curvature there.
    assert (error < 0.02 * 2.0).all()


def test_fifty_points_suffice_for_three_drops():
    time = np.linspace(0, 1, 50)
    truth = np.array([0.26, 0.5, 0.81])
    levels = np.array([2.0, 1.2, 0.5, 0.1])
    measured = stages(staircase(time, levels, truth, np.full(3, 0.004)), time)
    np.testing.assert_allclose(drop_times(measured), truth, atol=1 / 49)
    np.testing.assert_allclose(plateau_levels(measured), levels, atol=5e-3)


@pytest.mark.parametrize("ratio", [50, 20, 10, 5])
@pytest.mark.parametrize("seed", range(6))
def test_noise_up_to_a_fifth_of_the_smallest_drop(ratio, seed):
    """`ratio` is the smallest drop's height over the noise's standard deviation."""
    time = np.linspace(0, UNTIL, 6000)
    noise = -np.diff(LEVELS).max() / ratio
    rng = np.random.default_rng([ratio, seed])
    measured = stages(staircase(time) + noise * rng.standard_normal(time.size), time)
    assert len(measured.drops) == 4
    # A change of height h in noise σ can be placed to some (σ/h)² samples, beside its own width.
    allowed = WIDTHS + 10.0 * (1 + 10 * (noise / np.diff(LEVELS)) ** 2)
    assert (np.abs(drop_times(measured) - TIMES) < allowed).all()
    # The median of |x| over n normal points has a relative error of about 1.2/√n: here .015.
    assert measured.noise == pytest.approx(noise, rel=0.06)
    uncertainties = np.array([plateau.uncertainty for plateau in measured.plateaus])
    assert (np.abs(plateau_levels(measured) - LEVELS) < 5 * uncertainties).all()


def test_a_drop_smaller_than_the_noise_is_found_when_its_plateaus_are_long():
    rng = np.random.default_rng(3)
    curve = np.repeat([1.0, 0.5], 20_000) + rng.standard_normal(40_000)
    measured = stages(curve)
    assert len(measured.drops) == 1
    assert measured.drops[0].height == pytest.approx(0.5, abs=5 * measured.drops[0].uncertainty)
    assert measured.drops[0].uncertainty < 0.05


def test_uncertainties_cover_the_truth_about_as_often_as_a_standard_error_should():
    distances = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        curve = np.repeat([1.0, 0.0], 200) + 0.1 * rng.standard_normal(400)
        measured = stages(curve)
        assert len(measured.drops) == 1
        distances.append(abs(measured.drops[0].height - 1) / measured.drops[0].uncertainty)
    # 68 % for an exact standard error; ours is meant to err on the safe side.
    assert 0.6 < np.mean(np.array(distances) < 1) < 0.95
    assert np.mean(np.array(distances) < 3) > 0.97


@pytest.mark.parametrize("points", [50, 300, 5000])
@pytest.mark.parametrize("seed", range(10))
def test_pure_noise_has_no_drop(points, seed):
    curve = 3.0 + np.random.default_rng([points, seed]).standard_normal(points)
    measured = stages(curve)
    assert measured.drops == ()
    assert len(measured.plateaus) == 1
    assert (measured.plateaus[0].start, measured.plateaus[0].end) == (0.0, points - 1.0)
    assert measured.plateaus[0].level == pytest.approx(
        3.0, abs=4 * measured.plateaus[0].uncertainty
    )


@pytest.mark.parametrize("seed", range(6))
def test_correlated_noise_is_not_taken_for_drops(seed):
    """A running average over 20 steps, as training logs often show."""
    rng = np.random.default_rng(seed)
    smooth = np.convolve(rng.standard_normal(4019), np.full(20, 1 / 20), mode="valid")
    assert stages(0.3 * smooth).drops == ()
    measured = stages(np.repeat([1.0, 0.0], 2000) + 0.3 * smooth)
    np.testing.assert_allclose(drop_times(measured), [2000], atol=20)


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("seed", range(4))
def test_spikes_change_neither_the_drops_nor_the_levels(noise, seed):
    rng = np.random.default_rng(seed)
    time = np.linspace(0, UNTIL, 5000)
    curve = staircase(time) + noise * rng.standard_normal(time.size)
    spiked = curve.copy()
    places = rng.choice(np.arange(1, time.size - 1), 60, replace=False)
    spiked[places] += rng.choice([-1, 1], 60) * rng.uniform(0.5, 20, 60)
    before, after = stages(curve, time), stages(spiked, time)
    assert len(after.drops) == len(before.drops) == 4
    np.testing.assert_allclose(drop_times(after), drop_times(before), atol=4 * 12.0)
    tolerance = 1e-3 if noise == 0 else 3 * max(plateau.uncertainty for plateau in before.plateaus)
    np.testing.assert_allclose(plateau_levels(after), plateau_levels(before), atol=tolerance)


def test_a_loss_spike_that_recovers_slowly_is_no_drop():
    time = np.linspace(0, 100, 2000)
    spike = np.where(time > 70, 0.8 * np.exp(-(time - 70) / 1.5), 0.0)
    measured = stages(1 / (1 + np.exp((time - 30) / 2)) + spike, time)
    np.testing.assert_allclose(drop_times(measured), [30], atol=0.1)
    np.testing.assert_allclose(plateau_levels(measured), [1, 0], atol=1e-2)


def test_rises_and_dips_that_are_made_good_are_no_drops():
    time = np.linspace(0, 10, 400)
    assert stages(time**2, time).drops == ()
    assert stages(1 - np.exp(-((time - 5) ** 2)), time).drops == ()
    assert stages(np.exp(-((time - 5) ** 2)), time).drops == ()


def test_a_fall_before_a_slow_rise_is_one_drop():
    time = np.linspace(0, 10, 400)
    measured = stages(np.exp(-3 * time) + 0.02 * time, time)
    assert len(measured.drops) == 1
    assert measured.drops[0].before > 0.9


ONE_FALL = {
    "abrupt, then an exponential approach": lambda t: 0.136 + 0.864 / (1 + np.exp(5 * (t - 3))),
    "two rates of approach": lambda t: np.where(
        t < 1, 1.0, 0.8 * np.exp(-9 * (t - 1)) + 0.2 * np.exp(-(t - 1))
    ),
    "exponential from the start": lambda t: np.exp(-2 * t),
    "power law": lambda t: (1 + 20 * t) ** -0.5,
    "straight line": lambda t: 5 - t,
    "two drops that overlap in a shoulder": lambda t: (
        1 / (1 + np.exp(2 * (t - 4))) + 1 / (1 + np.exp(2 * (t - 6)))
    ),
}


@pytest.mark.parametrize("shape", ONE_FALL)
@pytest.mark.parametrize("points", [60, 1000, 20_000])
def test_one_fall_is_one_drop(shape, points):
    time = np.linspace(0, 10, points)
    curve = ONE_FALL[shape](time)
    measured = stages(curve, time)
    assert len(measured.drops) == 1
    span = curve[0] - curve[-1]
    # Where a fall never rests, the plateaus at its ends are the first and last twentieths of it,
    # counted from their own medians: a tenth of the fall, whose middle is a twentieth away.
    assert measured.drops[0].before == pytest.approx(curve[0], abs=0.07 * span)
    assert measured.drops[0].after == pytest.approx(curve[-1], abs=0.07 * span)


def test_two_drops_part_when_a_pause_comes_between_them():
    time = np.linspace(-40, 40, 4001)

    def count(distance):
        centres = np.array([-distance / 2, distance / 2])
        return len(stages(staircase(time, np.array([2.0, 1, 0]), centres, np.ones(2)), time).drops)

    assert [count(distance) for distance in (4.0, 6.0, 10.0, 20.0)] == [1, 1, 2, 2]


def test_a_pause_shorter_than_the_drop_that_follows_is_a_plateau():
    time = np.linspace(0, 6000, 6001)
    late = 0.5 / (1 + np.exp((time - 2500) / 300))  # it takes 1300 from 10 to 90 %
    measured = stages(0.5 * (time < 1000) + late, time)
    # The plateau is never quite flat: its level is some 2 % of the drop low, which moves the
    # crossing by 1 % of its height, at the speed of 1/4 of its height in 300.
    np.testing.assert_allclose(drop_times(measured), [1000, 2500], atol=0.02 * 4 * 300)


def test_smoothing_is_the_share_of_the_fall_below_which_nothing_counts():
    time = np.linspace(0, UNTIL, 6000)
    curve = staircase(time)
    shares = -np.diff(LEVELS) / (LEVELS[0] - LEVELS[-1])  # .416, .305, .194, .085
    for smoothing in (0.01, 0.05, 0.12, 0.18):
        measured = stages(curve, time, smoothing=smoothing)
        assert measured.smoothing == smoothing
        counted = TIMES[shares > smoothing]
        np.testing.assert_allclose(drop_times(measured), counted, atol=4 * WIDTHS[2])
    assert stages(curve, time).smoothing == 0.02
    small = staircase(time, np.array([1.0, 0.015, 0.0]), np.array([2e4, 4e4]), np.full(2, 100.0))
    assert len(stages(small, time).drops) == 1
    assert len(stages(small, time, smoothing=0.005).drops) == 2


def test_the_default_smoothing_grows_with_the_noise():
    time = np.linspace(0, 1, 200)
    rng = np.random.default_rng(0)
    curve = np.where(time < 0.5, 1.0, 0.0)
    defaults = [
        stages(curve + noise * rng.standard_normal(200), time).smoothing for noise in (0.01, 0.1, 1)
    ]
    assert defaults[0] == 0.02 < defaults[1] < defaults[2] <= 0.5


def test_a_drop_runs_from_a_twentieth_to_nineteen_twentieths():
    time = np.linspace(0, 100, 10_001)
    measured = stages(1 / (1 + np.exp((time - 40) / 2)), time)
    half_width = 2 * np.log(19)
    assert measured.drops[0].start == pytest.approx(40 - half_width, abs=0.02)
    assert measured.drops[0].end == pytest.approx(40 + half_width, abs=0.02)


@st.composite
def staircases(draw, noises=(0.0, 0.02)):
    """A staircase with separated drops, its times, and perhaps noise."""
    drops = draw(st.integers(0, 4))
    heights = np.array(draw(st.lists(st.floats(0.3, 1), min_size=drops, max_size=drops)))
    pauses = np.array(draw(st.lists(st.floats(1, 10), min_size=drops + 1, max_size=drops + 1)))
    moments = np.cumsum(pauses)
    levels = np.append(0, np.cumsum(heights))[::-1]
    time = np.linspace(0, moments[-1], draw(st.integers(300, 900)))
    curve = staircase(time, levels, moments[:-1], np.full(drops, 0.03))
    noise = draw(st.sampled_from(noises))
    seed = draw(st.integers(0, 2**32 - 1))
    return time, curve + noise * np.random.default_rng(seed).standard_normal(time.size), moments


def test_noise_splits_hardly_any_drop():
    # In 1 500 such staircases one drop was taken for two.
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(100):
        count = rng.integers(0, 5)
        levels = np.append(0, np.cumsum(rng.uniform(0.3, 1, count)))[::-1]
        moments = np.cumsum(rng.uniform(1, 10, count + 1))
        time = np.linspace(0, moments[-1], rng.integers(300, 900))
        curve = staircase(time, levels, moments[:-1], np.full(count, 0.03))
        drops = stages(curve + 0.02 * rng.standard_normal(time.size), time).drops
        wrong += len(drops) != count
    assert wrong <= 1


@given(staircases(noises=(0.0,)))
def test_any_separated_staircase_is_found_and_tiles_the_time(case):
    time, curve, moments = case
    measured = stages(curve, time)
    assert len(measured.drops) == len(moments) - 1
    np.testing.assert_allclose(drop_times(measured), moments[:-1], atol=0.03 + 2 * time[1])
    assert len(measured.plateaus) == len(measured.drops) + 1
    assert (measured.plateaus[0].start, measured.plateaus[-1].end) == (time[0], time[-1])
    for drop, (before, after) in zip(measured.drops, pairwise(measured.plateaus), strict=True):
        assert before.start <= before.end == drop.start <= drop.time <= drop.end == after.start
        assert (drop.before, drop.after) == (before.level, after.level)
        assert drop.height == drop.before - drop.after > 0


@given(staircases(), st.integers(-30, 30), st.integers(-30, 30))
def test_units_of_time_and_curve_do_not_matter(case, time_power, curve_power):
    # Powers of two scale floating-point numbers without rounding: the results agree bit by bit.
    time, curve, _ = case
    seconds, height = 2.0**time_power, 2.0**curve_power
    found = stages(curve, time).to_dict()
    scaled = stages(height * curve, seconds * time).to_dict()
    units = {"start": seconds, "end": seconds, "time": seconds}
    for kind in ("plateaus", "drops"):
        expected = [{k: v * units.get(k, height) for k, v in one.items()} for one in found[kind]]
        assert scaled[kind] == expected
    assert scaled["noise"] == height * found["noise"]
    assert scaled["smoothing"] == found["smoothing"]


@given(staircases(), st.floats(-100, 100), st.floats(-100, 100))
def test_a_constant_shifts_levels_and_times_and_nothing_else(case, up, later):
    time, curve, _ = case
    found, shifted = stages(curve, time), stages(curve + up, time + later)
    assert len(shifted.drops) == len(found.drops)
    # Rounding of values up to 104: some 1e-14, over slopes of .1 and more.
    np.testing.assert_allclose(drop_times(shifted) - later, drop_times(found), atol=1e-9)
    np.testing.assert_allclose(plateau_levels(shifted) - up, plateau_levels(found), atol=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=60), st.integers(0, 2**32 - 1))
def test_any_curve_has_stages(curve, seed):
    time = np.cumsum(10 ** np.random.default_rng(seed).uniform(-5, 5, len(curve)))
    measured = stages(curve, time)
    assert len(measured.plateaus) == len(measured.drops) + 1
    assert all(drop.height > 0 and drop.start <= drop.time <= drop.end for drop in measured.drops)
    assert json.loads(json.dumps(measured.to_dict(), allow_nan=False)) == measured.to_dict()


def test_a_constant_curve_is_one_plateau():
    measured = stages([2, 2, 2, 2])
    assert measured == Stages((Plateau(0.0, 3.0, 2.0, 0.0),), (), noise=0.0, smoothing=0.02)


def test_to_dict_holds_every_field_and_the_height():
    drop = Drop(start=1.0, end=3.0, time=2.0, before=5.0, after=1.5, uncertainty=0.25)
    found = Stages((Plateau(0.0, 1.0, 5.0, 0.2),), (drop,), noise=0.1, smoothing=0.02)
    assert found.to_dict() == {
        "plateaus": [{"start": 0.0, "end": 1.0, "level": 5.0, "uncertainty": 0.2}],
        "drops": [
            {
                "start": 1.0,
                "end": 3.0,
                "time": 2.0,
                "before": 5.0,
                "after": 1.5,
                "uncertainty": 0.25,
                "height": 3.5,
            }
        ],
        "noise": 0.1,
        "smoothing": 0.02,
    }


def test_stages_print_as_a_table_in_order_of_time():
    plateaus = Plateau(0.0, 10.0, 1.0, 0.01), Plateau(14.0, 50.0, 0.25, 0.02)
    drop = Drop(10.0, 14.0, 12.5, 1.0, 0.25, 0.022)
    assert repr(Stages(plateaus, (drop,), noise=0.1, smoothing=0.02)).splitlines() == [
        "Stages: 1 drop, noise 0.1",
        "         start  end  level      ±  mid-drop",
        "plateau      0   10      1   0.01",
        "drop        10   14  -0.75  0.022      12.5",
        "plateau     14   50   0.25   0.02",
    ]
    assert repr(stages([2, 2, 2])).startswith("Stages: no drops")


def test_curves_of_any_kind_have_the_same_stages():
    curve = np.repeat([1.0, 0.5, 0.25], 20).astype(np.float32)
    time = np.arange(60.0)
    expected = stages(curve, time)
    assert len(expected.drops) == 2
    assert stages(torch.tensor(curve, requires_grad=True), torch.tensor(time)) == expected
    assert stages(torch.tensor(curve).bfloat16()) == expected  # its three values are exact
    assert stages(jnp.asarray(curve)) == expected
    assert stages(xr.DataArray(curve, dims="time"), time.tolist()) == expected


def test_the_input_is_left_as_it_was():
    curve = np.array([1.0, 1.0, 9.0, 1.0, 0.5, 0.0, 0.0, 0.0])
    kept = curve.copy()
    stages(curve)
    np.testing.assert_array_equal(curve, kept)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"curve": [1, 0]}, "curve.shape"),
        ({"curve": [[1, 0, 0]]}, "curve.shape"),
        ({"curve": 1.0}, "curve.shape"),
        ({"curve": [1, np.nan, 0]}, "curve"),
        ({"curve": [1, np.inf, 0]}, "curve"),
        ({"curve": ["a", "b", "c"]}, "curve"),
        ({"curve": [1, 0, 0], "time": [0, 1]}, "time.shape"),
        ({"curve": [1, 0, 0], "time": [0, 1, 2, 3]}, "time.shape"),
        ({"curve": [1, 0, 0], "time": [0, 1, 1]}, "time"),
        ({"curve": [1, 0, 0], "time": [0, 2, 1]}, "time"),
        ({"curve": [1, 0, 0], "time": [0, 1, np.inf]}, "time"),
        ({"curve": [1, 0, 0], "smoothing": 0.0}, "smoothing"),
        ({"curve": [1, 0, 0], "smoothing": 0.6}, "smoothing"),
        ({"curve": [1, 0, 0], "smoothing": np.nan}, "smoothing"),
        ({"curve": [1, 0, 0], "smoothing": "0.1"}, "smoothing"),
        ({"curve": torch.tensor([1.0, np.nan, 0.0])}, "curve"),
        ({"curve": torch.ones((3, 3))}, "curve.shape"),
    ],
)
def test_bad_input_names_its_field(arguments, field):
    with pytest.raises(InvalidInput) as caught:
        stages(**arguments)
    assert caught.value.field == field


def test_the_picture_shows_every_plateau_and_every_drop():
    steps = np.arange(1000.0)
    loss = 1 - 0.6 / (1 + np.exp(300 - steps)) - 0.3 / (1 + np.exp(700 - steps))
    found = stages(loss, steps)
    (axes,) = found.plot(unit="step").axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    curve, *rest = axes.get_lines()
    np.testing.assert_array_equal(curve.get_ydata(), loss)
    levels = [line.get_ydata()[0] for line in rest[:3]]
    assert levels == [plateau.level for plateau in found.plateaus]
    assert [line.get_xdata()[0] for line in rest[3:]] == [drop.time for drop in found.drops]
    assert len(axes.patches) == len(found.drops) == 2
    by_hand = Stages(found.plateaus, found.drops, noise=0.0, smoothing=0.02)
    with pytest.raises(InvalidInput, match="these stages are of no curve"):
        by_hand.plot()
