"""The checks that constructors share."""

from enum import StrEnum
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from saddlescope.checks import (
    float_array,
    listed,
    number,
    one_of,
    real_array,
    seed_labels,
    whole_number,
    word_of,
)
from saddlescope.errors import InvalidInput


@pytest.mark.parametrize(
    "value", [3, 3.0, np.int64(3), np.float32(3), Fraction(3), np.array(3), jnp.array(3)]
)
def test_whole_numbers_of_any_type(value: object) -> None:
    result = whole_number("field", value)
    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize(
    "value", [0, 2.5, np.nan, np.inf, True, "3", None, [3], 3j, np.array(True), np.ma.masked]
)
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidInput, match="must be a whole number, at least 1"):
        whole_number("field", value)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), Fraction(2), np.array(2), jnp.array(2.0)])
def test_numbers_of_any_type(value: object) -> None:
    result = number("field", value, above=1.0)
    assert result == 2.0
    assert type(result) is float


@pytest.mark.parametrize("value", [1, 0.5, np.nan, np.inf, -np.inf, True, "2", None, 2j])
def test_what_is_no_number_above_one(value: object) -> None:
    with pytest.raises(InvalidInput, match="must be a finite number above 1"):
        number("field", value, above=1.0)


def test_bounds_hold_or_exclude() -> None:
    assert number("field", 1, at_least=1.0) == 1.0
    assert number("field", -5) == -5.0
    with pytest.raises(InvalidInput, match="at least 1"):
        number("field", 0.999, at_least=1.0)


def test_words() -> None:
    assert one_of("field", "a", ("a", "b")) == "a"
    for value in ("c", "", 3, None):
        with pytest.raises(InvalidInput, match="must be 'a' or 'b'"):
            one_of("field", value, ("a", "b"))


class Kind(StrEnum):
    small = "small"
    large = "large"


def test_words_of_an_enumeration() -> None:
    assert word_of("field", "large", Kind) is Kind.large
    assert word_of("field", Kind.small, Kind) is Kind.small
    for value in ("huge", "", 3, None):
        with pytest.raises(InvalidInput, match="must be 'small' or 'large'"):
            word_of("field", value, Kind)


@pytest.mark.parametrize(
    ("seeds", "labels"),
    [
        (3, (0, 1, 2)),
        (2.0, (0, 1)),
        (np.int32(1), (0,)),
        ([3, 7], (3, 7)),
        ((7, 3), (7, 3)),
        (range(2, 4), (2, 3)),
        (np.array([0, 5]), (0, 5)),
        (np.array(2), (0, 1)),
        (torch.tensor([3, 7]), (3, 7)),
        ([4.0], (4,)),
    ],
)
def test_seeds_are_counted_or_named(seeds: object, labels: tuple[int, ...]) -> None:
    found = seed_labels(seeds)
    assert found == labels
    assert all(type(seed) is int for seed in found)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (0, "must be a whole number, at least 1"),
        (-1, "must be a whole number, at least 1"),
        (1.5, "must be a whole number, at least 1"),
        (True, "must be a whole number, at least 1"),
        ("3", "must be a whole number, at least 1"),
        (None, "must be a whole number, at least 1"),
        (10_000_001, "must be at most 10000000"),
        (np.zeros(10_000_001, np.int8), "must be at most 10000000"),
        ([], "must hold at least one seed, each once"),
        ([3, 7, 3], "must hold at least one seed, each once"),
        ([3, -1], "must be a whole number, at least 0"),
        ([3, 0.5], "must be a whole number, at least 0"),
        (["a", "b"], "must be a whole number, at least 0"),
        ([[0, 1], [2, 3]], "must be a number or a sequence of seeds"),
        ([[0], [1, 2]], "must be a number or a sequence of seeds"),
    ],
)
def test_what_names_no_seeds(seeds: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        seed_labels(seeds)
    assert refused.value.field == "seeds"


def test_arrays_are_float64_copies_that_cannot_be_written() -> None:
    given = np.arange(3, dtype=np.float32)
    array = real_array("field", given, (None,))
    assert array.dtype == np.float64
    given[0] = 7
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tensors_are_read_without_their_gradient(dtype: torch.dtype) -> None:
    given = torch.tensor([0.5, 0.25], dtype=dtype, requires_grad=True)
    assert real_array("field", given, (2,)).tolist() == [0.5, 0.25]


@pytest.mark.parametrize("value", [3, np.array(3), {3: 1}, "34", b"34", None])
def test_what_has_no_items(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"field = .*: must be a list"):
        listed("field", value, "must be a list")


def test_arrays_with_gaps() -> None:
    assert np.isnan(float_array("field", [1.0, np.nan])[1])
    with pytest.raises(InvalidInput, match="array of real numbers"):
        float_array("field", [1.0, None])


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        ([1, 2], (3,), r"field\.shape = \(2,\): must be \(3,\)"),
        ([1, 2], (None, 2), r"field\.shape = \(2,\): must be \(any, 2\)"),
        ([[1, 2], [3]], None, "field = .*array of real numbers"),
        ([1, np.nan], None, "field = .*finite"),
        ("words", None, "field = 'words': must be an array of real numbers"),
        ([1j], None, "field = .*array of real numbers"),
        ([None, 1.0], None, "field = .*array of real numbers"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), None, "field = .*array of real numbers"),
    ],
)
def test_what_is_no_array_of_that_shape(value: object, shape, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        real_array("field", value, shape)
