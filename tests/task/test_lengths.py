"""Context lengths: one, or a distribution of them."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.task import ContextLengths


def test_a_number_is_one_length() -> None:
    lengths = ContextLengths.make(31)
    assert lengths.is_fixed
    assert lengths.lengths == (31,)
    assert lengths.longest == 31
    assert lengths.mean_inverse == pytest.approx(1 / 31, rel=1e-15)
    assert repr(lengths) == "31"


def test_whole_floats_count_as_whole_numbers() -> None:
    assert ContextLengths.make(31.0) == ContextLengths.make(31)


@pytest.mark.parametrize(
    ("value", "mean_inverse"),
    [
        ("uniform:1:2", 3 / 4),
        ([1, 4], 5 / 8),
        ({2: 0.25, 4: 0.75}, 0.25 / 2 + 0.75 / 4),
        (np.array([2, 4]), 3 / 8),
        (ContextLengths.uniform(2, 2), 1 / 2),
        (range(1, 3), 3 / 4),
        (ContextLengths({1: 0.25, 2: 0.75}), 5 / 8),
        (ContextLengths([8, 2], [1.0, 0.0]), 1 / 8),
    ],
)
def test_the_mean_inverse_is_over_the_distribution(value, mean_inverse: float) -> None:
    assert ContextLengths.make(value).mean_inverse == pytest.approx(mean_inverse, rel=1e-15)


def test_text_names_lengths() -> None:
    assert ContextLengths.parse(" 31 ") == ContextLengths.make(31)
    assert ContextLengths.parse("uniform:8:10").lengths == (8, 9, 10)


@pytest.mark.parametrize(
    "value",
    [
        *(0, -3, 2.5, np.nan, np.inf, True, None, [], [3, 3], [0, 1], {}),
        *("0", "x", "uniform:3", "uniform:4:2", "uniform:0:2"),
    ],
)
def test_what_is_no_length_is_refused_by_name(value) -> None:
    with pytest.raises(InvalidInput) as refusal:
        ContextLengths.make(value)
    assert refusal.value.field in {"context_length", "low"}
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("shares", [[0.5, 0.6], [1.5, -0.5], [1.0], [np.nan, 1.0]])
def test_probabilities_must_be_a_distribution(shares: list[float]) -> None:
    with pytest.raises(InvalidInput, match="probabilities"):
        ContextLengths([2, 4], shares)


def test_lengths_are_values() -> None:
    assert ContextLengths.uniform(2, 3) == ContextLengths([2, 3])
    assert hash(ContextLengths.uniform(2, 3)) == hash(ContextLengths([2, 3]))
    assert ContextLengths.uniform(2, 3) != ContextLengths([2, 3], [0.25, 0.75])
    assert ContextLengths.uniform(2, 3) != 2
    assert repr(ContextLengths.uniform(2, 4)) == "ContextLengths(2…4, E[1/N]=0.3611)"
