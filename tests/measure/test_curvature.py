"""Marks of curvature on staircases whose drops are known, and the signals themselves."""

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

from saddlescope.errors import InvalidInput
from saddlescope.measure import autocorrelation_curvature, norm_curvature, stages
from saddlescope.theory import coupled_modes, logistic_modes

# The plateau losses of THEORY T7 at λ = (.4, .3, .2, .1), N = 31.
LEVELS = np.array([1.0, 0.64058, 0.37737, 0.20980, 0.13600])
TIMES = np.array([1200.0, 3100.0, 9000.0, 30000.0])
UNTIL = 60000.0
SMALLEST = LEVELS[3] - LEVELS[4]


def staircase(time, widths=(8.0, 15.0, 30.0, 100.0)):
    steps = 1 / (1 + np.exp(np.clip((TIMES - time[:, None]) / np.array(widths), -500, 500)))
    return LEVELS[0] + steps @ np.diff(LEVELS)


def spacings(points):
    rng = np.random.default_rng(7)
    return {
        "linear": np.linspace(0, UNTIL, points),
        "log": np.geomspace(1, UNTIL, points),
        "log from zero": np.append(0, np.geomspace(1, UNTIL, points - 1)),
        "uneven": np.sort(np.append(rng.uniform(0, UNTIL, points - 2), [0, UNTIL])),
    }


@pytest.mark.parametrize("spacing", spacings(3))
@pytest.mark.parametrize("points", [300, 3000, 30_000])
def test_every_drop_of_a_clean_staircase_is_marked_and_nothing_else(spacing, points):
    time = spacings(points)[spacing]
    loss = staircase(time)
    for found in (autocorrelation_curvature(loss, time), norm_curvature(2 - loss, time)):
        assert found.axis == ("log time" if "log" in spacing else "time")
        assert len(found.marks) == 4
        # A mark is one of as many even steps as there are points; between uneven points the curve
        # is a straight line, along which every place is as steep.
        steps = np.diff(found.time)[np.searchsorted(found.time, TIMES) - 1]
        gaps = np.diff(time)[np.searchsorted(time, TIMES) - 1]
        assert (np.abs(found.marks - TIMES) <= 2 * steps + gaps).all()


@pytest.mark.parametrize("ratio", [50, 10])
@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize("points", [400, 4000])
def test_precision_and_recall_in_noise(ratio, correlation, points):
    """`ratio` is the smallest drop's height over the noise's standard deviation."""
    for measure, sign in ((autocorrelation_curvature, 1), (norm_curvature, -1)):
        hits = marks = 0
        for seed in range(8):
            time = np.geomspace(1, UNTIL, points)
            white = np.random.default_rng([seed, points]).standard_normal(points)
            noise = lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], white)
            found = measure(sign * (staircase(time) + SMALLEST / ratio * noise), time)
            # Within 8 % of the time: the drops are 2.5 times and more apart.
            hits += (np.abs(np.log(found.marks[:, None] / TIMES)) < 0.08).any(axis=0).sum()
            marks += len(found.marks)
        assert hits / (8 * 4) == 1.0
        # Correlated noise has slow swings; at a tenth of the smallest drop one mark in 17 is such.
        assert hits / marks > (0.9 if correlation else 0.999)


def test_modes_of_a_linear_transformer_are_marked():
    time = np.geomspace(0.1, 1e5, 500)
    step = np.log(time[1] / time[0])
    for run in (
        logistic_modes([1.0, 0.4, 0.15, 0.06], 100, 1e-4, time),
        coupled_modes([1.0, 0.4, 0.15, 0.06], 10_000, 1e-2, 1e-2, time),
    ):
        limit = run.limit if hasattr(run, "limit") else run.fixed_point.amplitude
        halves = np.array([np.interp(0.5, run.amplitude[:, d] / limit[d], time) for d in range(4)])
        curvature = norm_curvature(np.sqrt(2 * run.amplitude.sum(axis=1)), time)
        # The norm is steepest in log time near the half-time, within a time constant of it.
        np.testing.assert_allclose(np.log(curvature.marks), np.log(halves), atol=0.15)
        drops = [drop.time for drop in stages(run.loss, time).drops]
        curvature = autocorrelation_curvature(run.loss, time)
        np.testing.assert_allclose(np.log(curvature.marks), np.log(drops), atol=0.1 + step)
        assert len(drops) == 4


def test_the_signal_is_the_curvature_of_the_local_autocorrelation():
    """At lag 0, by differences of Gaussian averages of L(u)L(u + τ) themselves."""
    time = np.linspace(0, 40, 2001)
    loss = 1 / (1 + np.exp(time - 20))
    found = autocorrelation_curvature(loss, time, smoothing=0.01)
    width = 0.01 * 40
    weights = np.exp(-0.5 * ((time - 21) / width) ** 2)
    weights /= weights.sum()

    def averaged(lag):
        # Symmetric in the two factors, so that the first derivative at lag 0 vanishes.
        return weights @ (
            np.interp(time - lag / 2, time, smooth) * np.interp(time + lag / 2, time, smooth)
        )

    kernel = np.exp(-0.5 * ((time[:, None] - time) / width) ** 2)
    smooth = kernel @ loss / kernel.sum(axis=1)
    lag = 0.2
    curvature = (averaged(lag) - 2 * averaged(0.0) + averaged(-lag)) / lag**2
    # E[L(u - τ/2) L(u + τ/2)]'' = (E[L L''] - E[L'²])/2, and E[L L''] = -E[L'²] + E[L²]''/2, whose
    # last term belongs to the window and not to the lag.
    window = np.gradient(np.gradient(smooth**2, time), time)
    expected = -(curvature - (weights @ window) / 4)
    assert found.value[np.searchsorted(time, 21)] == pytest.approx(expected, rel=0.01)


def test_the_norm_signal_is_the_second_derivative():
    time = np.linspace(0, 10, 1001)
    curvature = norm_curvature(np.tanh(time - 5), time, smoothing=0.001)
    exact = -2 * np.tanh(time - 5) / np.cosh(time - 5) ** 2
    np.testing.assert_allclose(curvature.value[5:-5], exact[5:-5], atol=2e-3)
    np.testing.assert_allclose(curvature.marks, [5.0], atol=0.011)


def test_falling_norms_are_marked_and_rising_losses_are_not():
    time = np.linspace(0, 100, 1000)
    curve = 1 / (1 + np.exp(30 - time)) - 0.5 / (1 + np.exp(70 - time))
    np.testing.assert_allclose(norm_curvature(curve, time).marks, [30, 70], atol=0.2)
    np.testing.assert_allclose(autocorrelation_curvature(curve, time).marks, [70], atol=0.2)


def test_a_spike_of_two_points_is_not_marked():
    loss = staircase(np.linspace(0, UNTIL, 3000))
    loss[[700, 701]] = 5.0
    assert len(autocorrelation_curvature(loss).marks) == 4


@pytest.mark.parametrize("points", [50, 3000])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_marked_in_noise_or_on_a_constant(points, seed):
    noise = np.random.default_rng([points, seed]).standard_normal(points)
    for measure in (autocorrelation_curvature, norm_curvature):
        assert measure(noise).marks.size == 0
        assert measure(np.ones(points)).marks.size == 0


def test_the_smoothing_is_stated_and_grows_with_the_noise():
    time = np.linspace(0, UNTIL, 4000)
    rng = np.random.default_rng(0)
    wide = staircase(time, widths=(80.0, 150.0, 300.0, 1000.0))
    used = [
        autocorrelation_curvature(wide + noise * rng.standard_normal(4000), time).smoothing
        for noise in (0.0, 0.003, 0.01)
    ]
    assert used[0] == pytest.approx(1 / 3999)
    assert used[0] < used[1] <= used[2] <= 0.06
    assert autocorrelation_curvature(wide, time, smoothing=0.01).smoothing == 0.01


def test_tensors_and_representation():
    time = np.linspace(0, 100, 200)
    norm = torch.asarray(1 / (1 + np.exp(50 - time))).float()
    curvature = norm_curvature(norm, torch.asarray(time))
    assert isinstance(curvature.value, np.ndarray)
    assert curvature.value.shape == curvature.time.shape == (200,)
    assert repr(curvature).startswith("Curvature(marks=[49.") or "marks=[50." in repr(curvature)


@pytest.mark.parametrize("measure", [autocorrelation_curvature, norm_curvature])
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1.0, 0.0],), ".shape"),
        ((np.ones((3, 3)),), ".shape"),
        (([1.0, np.nan, 0.0],), ""),
        (("words",), ""),
        (([1.0, 0.5, 0.0], [0, 1, 1]), "time"),
        (([1.0, 0.5, 0.0], [0, 1]), "time.shape"),
    ],
)
def test_bad_curves_name_their_field(measure, arguments, field):
    name = "loss" if measure is autocorrelation_curvature else "norm"
    with pytest.raises(InvalidInput) as caught:
        measure(*arguments)
    assert caught.value.field == (field if "time" in field else name + field)


@pytest.mark.parametrize("smoothing", [0.0, -1.0, 0.3, np.nan, "wide"])
def test_smoothing_is_a_share_of_the_axis(smoothing):
    with pytest.raises(InvalidInput) as caught:
        norm_curvature([0.0, 1.0, 2.0, 3.0], smoothing=smoothing)
    assert caught.value.field == "smoothing"
