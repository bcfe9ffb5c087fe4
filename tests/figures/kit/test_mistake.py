"""Mistakes change what they name, nothing else, and are caught by the claims that see them."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.kit.claim import Claim, at_most, within
from saddlescope.figures.kit.mistake import (
    Mistake,
    changed,
    replaced,
    rolled,
    scaled,
    shifted,
    swapped,
)

DATA = xr.Dataset(
    {
        "measured": (("seed", "drop"), [[1.0, 2.0], [3.0, 4.0]]),
        "predicted": (("seed", "drop"), [[1.0, 2.0], [3.0, 4.0]]),
        "level": ("drop", [5.0, 6.0]),
    },
    coords={"seed": [7, 9]},
)


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (scaled("m", 2.0, "measured"), [[2, 4], [6, 8]]),
        (scaled("m", [1.0, 10.0], "measured"), [[1, 20], [3, 40]]),
        (shifted("m", 0.5, "measured"), [[1.5, 2.5], [3.5, 4.5]]),
        (rolled("m", "seed", "measured"), [[3, 4], [1, 2]]),
        (replaced("m", {"measured": [8.0, 9.0]}), [[8, 9], [8, 9]]),
        (changed("m", "measured", by=lambda values: values[:, ::-1]), [[2, 1], [4, 3]]),
    ],
)
def test_a_mistake_changes_what_it_names(mistake: Mistake, expected: list[list[float]]) -> None:
    wrong = mistake.make(DATA)
    np.testing.assert_array_equal(wrong["measured"], expected)
    xr.testing.assert_identical(wrong.drop_vars("measured"), DATA.drop_vars("measured"))


def test_variables_in_each_others_place() -> None:
    other = DATA.assign(predicted=DATA["predicted"] + 1)
    wrong = swapped("m", "measured", "predicted").make(other)
    np.testing.assert_array_equal(wrong["measured"], other["predicted"])
    np.testing.assert_array_equal(wrong["predicted"], other["measured"])


def judge(data: xr.Dataset) -> tuple[Claim, ...]:
    return (
        within("times", data["measured"], data["predicted"], 0.01),
        at_most("levels", data["level"], 4.0).expected_to_fail("they are higher"),
    )


def test_a_mistake_is_caught_by_a_verdict_that_changes() -> None:
    assert scaled("late", 1.02, "measured").caught_by(judge, DATA) == ("times",)
    # One that makes an expected failure hold is noticed as well.
    assert scaled("low", 0.5, "level").caught_by(judge, DATA) == ("levels",)
    assert scaled("the same in both", 2.0, "measured", "predicted").caught_by(judge, DATA) == ()
