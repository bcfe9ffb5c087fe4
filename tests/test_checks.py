"""The checks that constructors share."""

from fractions import Fraction

import numpy as np
import pytest

from saddlescope.checks import number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), Fraction(3)])
def test_whole_numbers_of_any_type(value: object) -> None:
    result = whole_number("field", value)
    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize("value", [0, 2.5, np.nan, np.inf, True, "3", None, [3], 3j])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidInput, match="must be a whole number, at least 1"):
        whole_number("field", value)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), Fraction(2)])
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


def test_arrays_are_float64_copies_that_cannot_be_written() -> None:
    given = np.arange(3, dtype=np.float32)
    array = real_array("field", given, (None,))
    assert array.dtype == np.float64
    given[0] = 7
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        ([1, 2], (3,), r"field\.shape = \(2,\): must be \(3,\)"),
        ([1, 2], (None, 2), r"field\.shape = \(2,\): must be \(any, 2\)"),
        ([[1, 2], [3]], None, "field = .*array of numbers"),
        ([1, np.nan], None, "field = .*finite"),
        ("words", None, "field = 'words': must be an array of numbers"),
        ([1j], None, "field = .*array of numbers"),
    ],
)
def test_what_is_no_array_of_that_shape(value: object, shape, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        real_array("field", value, shape)
