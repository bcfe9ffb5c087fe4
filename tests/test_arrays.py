"""What arrays share: short texts of results that hold them."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.arrays import BriefRepr


@dataclass(frozen=True, repr=False)
class Held(BriefRepr):
    value: object
    hidden: object = field(default=None, repr=False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.array([0.1, 1 / 3]), "[0.1, 0.333333]"),
        (np.arange(9), "int64[9]"),
        (np.eye(2), "float64[2, 2]"),
        (np.array(2.0), "2"),
        (np.array([True]), "[True]"),
        (1e-9, "1e-09"),
        ("word", "'word'"),
        ({"v": np.zeros((1, 2))}, "{'v': float64[1, 2]}"),
    ],
)
def test_long_arrays_show_their_type_and_shape(value: object, shown: str) -> None:
    assert repr(Held(value, hidden=1)) == f"Held(value={shown})"


def test_a_time_course_is_shown_on_one_line() -> None:
    course = ss.theory.time_course(ss.InContextRegression([0.4, 0.3], 31), init_scale=1e-3)
    assert len(repr(course)) < 200
    assert "loss=float64[401]" in repr(course)
