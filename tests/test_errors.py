"""Errors: one line, with the field, the value and what is allowed."""

import pickle

import numpy as np
import pytest

from saddlescope import errors
from saddlescope.errors import CannotRead, Interrupted, InvalidInput, SaddlescopeError


def test_a_refusal_says_field_value_and_what_is_allowed() -> None:
    refusal = InvalidInput("heads", 0, "must be at least 1")
    assert str(refusal) == "heads = 0: must be at least 1"
    assert (refusal.field, refusal.value, refusal.allowed) == ("heads", 0, "must be at least 1")
    assert isinstance(refusal, ValueError)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(1000.0),
        np.eye(30),
        list(range(1000)),
        {str(number): number for number in range(100)},
        "one\ntwo\r\nthree",
        "long " * 1000,
        object(),
    ],
    ids=["array", "matrix", "list", "mapping", "lines", "text", "object"],
)
def test_large_values_are_shown_in_brief_and_on_one_line(value: object) -> None:
    message = str(InvalidInput("field", value, "is wrong"))
    assert len(message.splitlines()) == 1
    assert len(message) < 300
    assert message.endswith(": is wrong")


def test_a_refusal_crosses_processes() -> None:
    again = pickle.loads(pickle.dumps(InvalidInput("heads", 0, "must be at least 1")))
    assert str(again) == "heads = 0: must be at least 1"
    assert again.field == "heads"


def test_all_errors_are_ours() -> None:
    for kind in (InvalidInput, CannotRead, Interrupted, errors.TheoryDoesNotApply):
        assert issubclass(kind, SaddlescopeError)
    stopped = Interrupted("snapshot", 15)  # type: ignore[arg-type]
    assert (stopped.snapshot, stopped.signal) == ("snapshot", 15)
