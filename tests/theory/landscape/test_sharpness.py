"""T21: the spectrum of the Hessian in closed form, against the Hessian itself, and Lanczos."""

from itertools import combinations

import numpy as np
import pytest

from saddlescope.attention import (
    ConvolutionalNetwork,
    MergedAttention,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AlignedRegression, InContextRegression
from saddlescope.theory import (
    fixed_points,
    hessian,
    hessian_spectrum,
    minimal_norm_weights,
    minimum,
    modes,
    sharpness,
    staircase_sharpness,
)

# 44 random tasks, with eigenvalues of inputs, tasks and queries, a basis, noise and lengths.
TASKS = [(2, range(20)), (3, range(20)), (4, range(4))]
NARROW = InContextRegression([1.0, 0.02], context_length=1000)


def dense(model, task, subset):
    return np.linalg.eigvalsh(hessian(model, task, minimal_norm_weights(model, task, subset)))


def assert_whole_spectrum(model, task, subset):
    """All eigenvalues of the Hessian are those in closed form, and zeros."""
    expected, found = dense(model, task, subset), hessian_spectrum(model, task, subset).values
    padded = np.sort(np.append(found, np.zeros(expected.size - found.size)))
    # 5e-15 of the largest was the worst of 2000.
    np.testing.assert_allclose(padded, expected, rtol=0, atol=3e-14 * np.abs(expected).max())


@pytest.mark.parametrize(("dimension", "seeds"), TASKS)
def test_the_spectrum_is_that_of_the_hessian_at_every_fixed_point(commuting, dimension, seeds):
    model = SeparateAttention(dimension)
    for seed in seeds:
        task = commuting(dimension, seed)
        for size in range(dimension + 1):
            for subset in combinations(range(dimension), size):
                assert_whole_spectrum(model, task, subset)


def test_heads_of_higher_rank_hold_several_directions(commuting):
    model = SeparateAttention(2, 2)
    for seed in range(3):
        for point in fixed_points(commuting(3, seed), model=model):
            assert_whole_spectrum(model, commuting(3, seed), point)


@pytest.mark.parametrize(
    "model",
    [MergedAttention(3), TwoLayerNetwork(2), ConvolutionalNetwork(3)],
    ids=["merged", "two layers", "convolution"],
)
def test_merged_attention_and_the_networks(commuting, model):
    for seed in range(3):
        for subset in ((), (0, 1, 2)):
            assert_whole_spectrum(model, commuting(3, seed), subset)


@pytest.mark.parametrize("model", [MergedAttention(2, "none"), SeparateAttention(2, 1, "none")])
def test_without_normalisation_every_eigenvalue_is_larger(model):
    task = InContextRegression([0.4, 0.3], 31)
    assert_whole_spectrum(model, task, (0, 1))
    unit = 31 if model.degree == 2 else 31 ** (2 / 3)
    plain = staircase_sharpness(type(model)(2), task).sharpness
    np.testing.assert_allclose(staircase_sharpness(model, task).sharpness, unit * plain, rtol=1e-12)


def test_a_direction_that_is_not_driven_can_be_turned_to():
    task = InContextRegression([0.4, 0.3, 0.2], 31, task_covariance=[1.0, 1.0, 0.0])
    assert hessian_spectrum(SeparateAttention(3), task, (0, 1)).turning.size == 4
    assert_whole_spectrum(SeparateAttention(3), task, (0, 1))


def test_negative_eigenvalues_are_the_index_and_turn_heads(paper):
    model = SeparateAttention(4)
    for point in fixed_points(paper):
        spectrum = hessian_spectrum(model, paper, point)
        assert (spectrum.turning < 0).sum() == (spectrum.values < 0).sum() == point.index
        assert spectrum.values.tolist() == sorted(spectrum.values, reverse=True)


def test_the_first_head_bounds_the_learning_rate_in_the_papers_case(paper):
    task_modes, found = modes(paper), staircase_sharpness(SeparateAttention(5), paper)
    bound = 6 * task_modes.drive[0] * np.cbrt(task_modes.amplitude[0])
    np.testing.assert_allclose(found.sharpness, [0, *[bound] * 4], rtol=1e-13)
    assert found.stable_learning_rates[0] == np.inf
    assert found.stable_learning_rate == pytest.approx(2 / bound, rel=1e-13)
    assert found.subsets == ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    assert not found.is_numerical


@pytest.mark.parametrize(("most_length", "most_ratio"), [(250, 1e4), (10**6, 25.9)])
def test_where_the_first_head_bounds_it(most_length, most_ratio):
    generator = np.random.default_rng(0)
    for _ in range(60):
        dimension = int(generator.integers(2, 6))
        spread = np.exp(generator.uniform(-np.log(most_ratio), 0, dimension))
        spread[0] = 1.0
        length = int(np.exp(generator.uniform(0, np.log(most_length))))
        task = InContextRegression(generator.uniform(0.1, 10) * spread, length)
        task_modes = modes(task)
        bound = (
            6 * task_modes.drive.max() * np.cbrt(task_modes.amplitude[task_modes.drive.argmax()])
        )
        found = staircase_sharpness(SeparateAttention(dimension), task).sharpness[1:]
        np.testing.assert_allclose(found, bound, rtol=1e-12)


def test_beyond_that_rotations_bound_it():
    found = staircase_sharpness(SeparateAttention(2), NARROW).sharpness
    assert found[2] == pytest.approx(6.940, abs=5e-4)
    assert hessian_spectrum(SeparateAttention(2), NARROW, (0, 1)).along.max() == pytest.approx(
        5.996, abs=5e-4
    )


def test_where_nothing_is_learned_nothing_is_bounded(paper):
    # No task asks for what the inputs have.
    zero = InContextRegression([0.4, 0.0], 31, task_covariance=[0.0, 1.0])
    for model in (SeparateAttention(2), MergedAttention(2)):
        assert staircase_sharpness(model, zero).stable_learning_rate is None
    few = staircase_sharpness(SeparateAttention(2), paper)
    assert few.subsets == ((), (0,), (0, 1))


def test_points_at_which_a_model_cannot_rest(paper):
    for model, subset in ((SeparateAttention(2), (0, 1, 2)), (MergedAttention(2), (0,))):
        with pytest.raises(InvalidInput, match=r"cannot carry 3|none or all"):
            hessian_spectrum(model, paper, subset)


def test_lanczos_finds_the_largest_eigenvalue_anywhere(commuting, skewed):
    generator = np.random.default_rng(0)
    for model, task in (
        (SeparateAttention(3), commuting(3, 0)),
        (MergedAttention(3), commuting(3, 1)),
        (SeparateAttention(2), skewed),
    ):
        shapes = model.shapes(task.dimension)
        weights = {name: generator.standard_normal(shape) for name, shape in shapes.items()}
        expected = np.linalg.eigvalsh(hessian(model, task, weights))[-1]
        assert sharpness(model, task, weights) == pytest.approx(expected, rel=1e-13)
    assert sharpness(SeparateAttention(2), skewed, {"v": [0, 0], **zero_pairs()}) == 0.0


def zero_pairs():
    return {name: np.zeros((2, 1, 2)) for name in "kq"}


def test_merged_attention_needs_no_common_eigenvectors(skewed):
    model = MergedAttention(2)
    found = staircase_sharpness(model, skewed)
    best = model.realise(minimum(skewed).effective_map)
    assert not found.is_numerical
    assert found.sharpness[1] == pytest.approx(sharpness(model, skewed, best), rel=1e-13)


@pytest.mark.parametrize("part", [0.5, 0.7, 0.95])
def test_heads_that_share_a_direction_are_flatter(part):
    task = InContextRegression([0.4, 0.3], 31)
    parts, task_modes = np.array([part, 1 - part]), modes(task)
    lengths = np.cbrt(parts * task_modes.amplitude[0])
    pairs = np.zeros((2, 1, 2))
    pairs[:, 0, 0] = lengths
    expected = 6 * task_modes.drive[0] * np.cbrt(task_modes.amplitude[0]) * (parts ** (4 / 3)).sum()
    found = sharpness(SeparateAttention(2), task, {"v": lengths, "k": pairs, "q": pairs})
    assert found == pytest.approx(expected, rel=1e-12)


def test_heads_are_filled_in_the_order_of_learning(paper):
    # Of three directions the first two share a head; the shortest weights join the last two.
    found = staircase_sharpness(SeparateAttention(2, 2), paper)
    value = np.cbrt(modes(paper).amplitude[:2].sum())
    weights = minimal_norm_weights(SeparateAttention(2, 2), paper, (0, 1))
    assert weights["v"][0] == pytest.approx(value)
    assert found.sharpness[2] == pytest.approx(
        sharpness(SeparateAttention(2, 2), paper, weights), rel=1e-12
    )
    assert found.sharpness[3] == found.sharpness[2]
    assert (
        found.sharpness[3]
        > 1.1 * hessian_spectrum(SeparateAttention(2, 2), paper, (0, 1, 2)).largest
    )


def test_what_the_theory_does_not_say(disagreeing, paper, skewed):
    with pytest.raises(TheoryDoesNotApply, match="T17"):
        staircase_sharpness(SeparateAttention(2), disagreeing)
    assert hessian_spectrum(SeparateAttention(2), disagreeing, (0,)).turning.min() < 0
    with pytest.raises(TheoryDoesNotApply, match="all blocks"):
        staircase_sharpness(SeparateAttention(4, blocks="full"), paper)
    with pytest.raises(TheoryDoesNotApply, match="vectors"):
        staircase_sharpness(MergedAttention(2), AlignedRegression([0.4, 0.3], 31))
    with pytest.raises(TheoryDoesNotApply, match="commute"):
        hessian_spectrum(SeparateAttention(2), skewed, (0,))
