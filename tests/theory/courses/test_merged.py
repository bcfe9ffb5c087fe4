"""T9 to T11: merged attention."""

import numpy as np
import pytest

from saddlescope.attention import (
    BalancedStart,
    MergedAttention,
    RandomStart,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.theory import alignment, minimum, plateau_duration, time_course
from saddlescope.theory.courses.merged import merged_drop_times

MODEL = MergedAttention(heads=8)
WHITE = InContextRegression("white:4", context_length=31)


def test_t9_is_the_papers_formula():
    scale = 0.01
    weights = {"v": np.array([scale]), "U": scale * np.eye(4)[None] / 2}
    times = np.linspace(0, 8, 50)
    course = time_course(WHITE, weights=weights, times=times)
    growth, damping = np.exp(4 * times), 1 + 5 / 31
    sigma = growth / (damping * (growth - 1) + 2 / scale**2)
    assert course.equation == "T9"
    np.testing.assert_allclose(course.diagonal, np.repeat(sigma[:, None], 4, 1), rtol=1e-12)
    expected = 4 * (1 - 2 * sigma + damping * sigma**2)
    np.testing.assert_allclose(course.loss, expected, atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 0.7])
def test_t9_is_exact_from_its_own_start(flow_of, scale):
    task = InContextRegression(
        "white:3:.5", {5: 0.5, 9: 0.5}, Spectrum.white(3, 2.0), label_noise=0.3
    )
    weights = BalancedStart(scale, "aligned").weights(MODEL, task, seed=0)
    course = time_course(task, weights=weights)
    # The flow is solved to 1e-10.
    np.testing.assert_allclose(flow_of(task, weights).losses(course.time), course.loss, atol=1e-8)


def test_t9_from_a_small_random_start(flow_of):
    weights = RandomStart(1e-4).weights(MODEL, WHITE, seed=0)
    course = time_course(WHITE, weights=weights)
    flow = flow_of(WHITE, weights)
    np.testing.assert_allclose(flow.losses(course.time, 1e-12), course.loss, atol=4e-8)


@pytest.mark.parametrize(("spectrum", "large"), [("white:3", 1.5), ([0.6, 0.3, 0.06, 3e-4], 2.0)])
def test_drop_times_of_many_seeds_are_those_of_each(spectrum, large):
    task = InContextRegression(spectrum, context_length=31)
    # The last one begins below half-way.
    starts = RandomStart(0.01).ensemble(MODEL, task, np.arange(4))
    late = BalancedStart(large, "aligned").weights(MODEL, task, seed=0)
    starts = {name: np.concatenate([own, late[name][None]]) for name, own in starts.items()}
    found = merged_drop_times(MODEL, task, starts)
    for seed, time in enumerate(found):
        own = {name: array[seed] for name, array in starts.items()}
        alone = time_course(task, weights=own, model=MODEL).drop_time
        assert np.isnan(time) if alone is None else time == pytest.approx(alone, rel=1e-8)
    assert np.isnan(found).tolist() == [False] * 4 + [True]


@pytest.mark.parametrize("dimension", [4, 8])
def test_t10_against_the_full_flow(flow_of, dimension):
    task = InContextRegression(Spectrum.power_law(dimension), 31)
    errors = []
    for scale in (1e-4, 1e-2):
        weights = RandomStart(scale).weights(MergedAttention(3), task, seed=1)
        course = time_course(task, weights=weights)
        assert course.equation == "T10"
        errors.append(np.abs(flow_of(task, weights).losses(course.time) - course.loss).max())
    assert errors[0] < 1e-4
    # The error is of first order in the scale of the start.
    assert np.log10(errors[1] / errors[0]) == pytest.approx(2, abs=0.1)


def test_t10_of_a_commuting_task(flow_of, commuting):
    task = commuting(3, seed=5)
    weights = RandomStart(1e-4).weights(MODEL, task, seed=0)
    course = time_course(task, weights=weights)
    drop = course.loss_before - course.loss_after
    assert np.abs(flow_of(task, weights).losses(course.time) - course.loss).max() < 1e-4 * drop


@pytest.mark.parametrize("task", [WHITE, InContextRegression([0.4, 0.3, 0.2, 0.1], 31)])
def test_both_ends_and_the_drop_between(task):
    course = time_course(task, 1e-3)
    assert course.loss[0] == pytest.approx(course.loss_before, rel=1e-4)
    # The default grid ends e^-20 from convergence.
    assert course.loss[-1] == pytest.approx(minimum(task).loss, rel=1e-7)
    np.testing.assert_allclose(
        course.diagonal[-1], np.diagonal(minimum(task).effective_map), rtol=1e-6
    )
    np.testing.assert_allclose(course.amplitude, np.linalg.norm(course.diagonal, axis=1))
    assert (np.diff(course.loss) <= 1e-12).all()
    (at_drop,) = time_course(task, 1e-3, times=[course.drop_time]).loss
    assert at_drop == pytest.approx((course.loss_before + course.loss_after) / 2, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-20, 1e-34, 1e-100])
def test_a_tiny_start_only_waits_longer(paper, scale):
    small = time_course(paper, init_scale=1e-7)
    wait = np.log(1e-7 / scale) / np.linalg.norm([0.16, 0.09, 0.04, 0.01])
    times = np.array([0, small.drop_time / 2, small.drop_time, 2 * small.drop_time])
    course = time_course(paper, init_scale=scale, times=[0, *times + wait])
    assert course.drop_time == pytest.approx(small.drop_time + wait, rel=1e-11)
    expected = time_course(paper, init_scale=1e-7, times=times).loss
    np.testing.assert_allclose(course.loss[1:], expected, rtol=1e-9)


def test_mean_alignment_of_the_papers_start(paper):
    starts = RandomStart(0.01).ensemble(MODEL, paper, np.arange(2000))
    found = [alignment(paper, {"v": v, "U": U}) for v, U in zip(*starts.values(), strict=True)]
    expected = 0.01**2 * (1 + 1 / 16) / 4
    # The relative spread of one draw is about √(2/H) = 1/2.
    assert np.mean(found) == pytest.approx(expected, rel=4 * 0.5 / np.sqrt(2000))
    assert time_course(paper, 0.01).amplitude[0] == pytest.approx(expected, rel=1e-9)


def test_plateau_in_both_forms(paper):
    rate = np.linalg.norm([0.16, 0.09, 0.04, 0.01])
    scales = np.array([1e-5, 1e-4, 1e-3, 1e-2])
    durations = [plateau_duration(paper, scale) for scale in scales]
    np.testing.assert_allclose([p.leading for p in durations], np.log(1 / scales) / rate)
    drops = np.array([time_course(paper, scale).drop_time for scale in scales])
    late = drops - np.array([p.aligned for p in durations])
    # With s(0) the error is a constant in time.
    np.testing.assert_allclose(late, late[0], atol=1e-3)


def test_networks_and_unnormalised_attention_are_the_same_course(paper):
    weights = RandomStart(0.01).weights(MODEL, paper, seed=0)
    expected = time_course(paper, weights=weights)
    network = TwoLayerNetwork(8)
    same = time_course(paper, weights=network.from_attention(weights), model=network)
    assert same.drop_time == pytest.approx(expected.drop_time, rel=1e-9)
    smaller = {name: array / np.sqrt(31) for name, array in weights.items()}
    theirs = MergedAttention(8, normalisation="none")
    same = time_course(paper, weights=smaller, model=theirs)
    assert same.drop_time == pytest.approx(expected.drop_time, rel=1e-9)
    scaled = time_course(paper, 0.01 / np.sqrt(31), model=theirs)
    assert scaled.drop_time == pytest.approx(time_course(paper, 0.01).drop_time, rel=1e-9)


def test_a_start_past_the_middle_has_no_drop():
    weights = {"v": np.array([1.5]), "U": 1.5 * np.eye(4)[None] / 2}
    assert time_course(WHITE, weights=weights).drop_time is None


@pytest.mark.parametrize("seed", [2, 3])
def test_a_start_that_is_not_refused_is_predicted_to_a_tenth_of_the_drop(flow_of, paper, seed):
    times, answered = np.linspace(0, 60, 61), []
    for scale in (0.2, 0.4, 1.0, 1.5):
        weights = RandomStart(scale).weights(MODEL, paper, seed)
        try:
            course = time_course(paper, weights=weights, times=times)
        except TheoryDoesNotApply:
            continue
        answered.append(scale)
        fall = course.loss_before - course.loss_after
        error = np.abs(flow_of(paper, weights).losses(times, rtol=1e-6) - course.loss).max()
        assert error < 0.1 * fall
    # At scale 1 it would be wrong by .2, at 1.5 by .4 of the drop.
    assert answered == [0.2, 0.4]


def test_large_or_orthogonal_starts_are_refused(paper):
    with pytest.raises(TheoryDoesNotApply, match="the start is large"):
        time_course(paper, 3.0)
    with pytest.raises(TheoryDoesNotApply, match="no part along the drive"):
        time_course(paper, weights={"v": np.zeros(1), "U": np.zeros((1, 4, 4))})


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "init_scale"),
        ({"init_scale": 0.0}, "init_scale"),
        ({"init_scale": 0.1, "weights": {}}, "init_scale"),
        ({"weights": {"v": np.ones(2)}}, "weights"),
        ({"weights": {"v": np.ones(2), "U": np.ones((2, 3, 3))}}, "weights"),
        ({"init_scale": 0.1, "times": [1.0, 0.0]}, "times"),
        ({"init_scale": 0.1, "times": [-1.0]}, "times"),
        ({"init_scale": 0.1, "times": []}, "times"),
        ({"init_scale": 0.1, "model": SeparateAttention(2)}, "model"),
    ],
)
def test_bad_input_is_named(paper, arguments, field):
    with pytest.raises(InvalidInput, match=field):
        time_course(paper, **arguments)


def test_a_flow_that_cannot_be_followed_is_given_up(paper, monkeypatch):
    monkeypatch.setattr("saddlescope.theory._following._MOST_EVALUATIONS", 50)
    with pytest.raises(TheoryDoesNotApply, match="T10's flow cannot be followed"):
        time_course(paper, weights=RandomStart(0.01).weights(MODEL, paper, seed=0))
