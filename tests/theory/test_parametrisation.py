"""Which theory speaks of a model, on which task."""

import numpy as np
import pytest

from saddlescope.attention import (
    ConvolutionalNetwork,
    DeepAttention,
    MergedAttention,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, TaskPool
from saddlescope.theory import fixed_points, plateau_losses
from saddlescope.theory.parametrisation import is_merged, normalised_weights

FULL = [MergedAttention(2, blocks="full"), SeparateAttention(2, blocks="full")]
POOL = TaskPool([0.4, 0.3], 31, [[2, 0], [0, 1]], share=0.5)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (MergedAttention, True),
        (TwoLayerNetwork, True),
        (SeparateAttention, False),
        (ConvolutionalNetwork, False),
    ],
)
def test_networks_share_the_theory_of_the_attention_that_they_are(kind, expected):
    assert is_merged(kind(2)) is expected


def test_what_the_theory_does_not_know():
    for model in (MergedAttention(2, activation="softmax"), DeepAttention(layers=2, heads=2)):
        with pytest.raises(TheoryDoesNotApply, match="linear attention"):
            is_merged(model)
    with pytest.raises(InvalidInput, match="model"):
        is_merged("merged")


@pytest.mark.parametrize("model", FULL, ids=["merged", "separate"])
def test_blocks_that_stay_at_zero_change_nothing(paper, model):
    expected = plateau_losses(paper)[: 3 if model is FULL[1] else None]
    levels = plateau_losses(paper, model=model)
    np.testing.assert_array_equal(levels[[0, -1]], expected[[0, -1]])
    # Tasks and their opposites: all odd moments vanish.
    pairs = TaskPool([0.4, 0.3], 31, [[2, 0], [-2, 0]], share=0.5)
    assert len(fixed_points(pairs, model=model)) == (2 if model is FULL[0] else 4)


@pytest.mark.parametrize("model", FULL, ids=["merged", "separate"])
def test_blocks_that_learn_are_beyond_the_effective_map(model):
    for task in (POOL, TaskPool([0.4, 0.3], 31, [[2, 0]])):
        with pytest.raises(TheoryDoesNotApply, match="odd moments"):
            plateau_losses(task, model=model)
        with pytest.raises(TheoryDoesNotApply, match="odd moments"):
            normalised_weights(model, task, {})


def test_the_levels_that_a_model_can_reach(paper):
    levels = plateau_losses(paper)
    reached = plateau_losses(paper, model=SeparateAttention(heads=1, rank=2))
    np.testing.assert_array_equal(reached, levels[:3])
    np.testing.assert_array_equal(plateau_losses(paper, model=MergedAttention(1)), levels[[0, -1]])


def test_unnormalised_weights_are_those_of_the_normalised_attention(paper):
    task = InContextRegression([0.4, 0.3], 8)
    weights = {"v": np.ones(1), "k": np.ones((1, 1, 2)), "q": np.ones((1, 1, 2))}
    normalised = normalised_weights(SeparateAttention(1, normalisation="none"), task, weights)
    # The gain 8 is shared by three factors.
    assert normalised["v"] == pytest.approx(2)
    with pytest.raises(InvalidInput, match="one seed"):
        normalised_weights(SeparateAttention(1), task, {n: w[None] for n, w in weights.items()})
