"""Sufficient statistics of a mixture."""

import numpy as np
import pytest

from saddlescope.task import InContextRegression, Statistics

LAW = InContextRegression([0.6, 0.3], context_length=5)
OTHER = InContextRegression([0.2, 0.9], context_length=5)


def test_a_mixture_of_prompts_is_that_of_all_of_them() -> None:
    """A quarter of all prompts are of one law: their statistics are those of one pile."""
    few, many = LAW.sample(100, seed=1), OTHER.sample(300, seed=2)
    mixed = few.statistics().mixed(0.25, many.statistics())
    pile = Statistics.from_batches([few, many])
    np.testing.assert_allclose(mixed.second_moment, pile.second_moment, rtol=1e-12)
    np.testing.assert_allclose(mixed.cross_moment, pile.cross_moment, rtol=1e-12)
    assert mixed.label_power == pytest.approx(pile.label_power, rel=1e-12)
    assert mixed.count == pile.count == 400
    assert mixed.context_length == pile.context_length == 5


def test_a_mixture_with_a_law_has_no_count() -> None:
    drawn, exact = LAW.sample(100).statistics("full"), LAW.block_statistics()
    assert exact.count is None
    for mixed in (drawn.mixed(0.5, exact), exact.mixed(0.5, drawn)):
        assert mixed.count is None
        assert mixed.blocks == "full"
        assert "exact" in repr(mixed)


def test_a_mixture_of_lengths_has_no_one_length() -> None:
    shorter = InContextRegression([0.6, 0.3], context_length=4).sample(100).statistics()
    assert LAW.sample(100).statistics().mixed(0.5, shorter).context_length is None
