"""Recording grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.dynamics import Record
from saddlescope.errors import InvalidInput


def test_a_linear_grid_is_even() -> None:
    np.testing.assert_allclose(Record(points=5).grid(2.0, 10.0, whole=False), [2, 4, 6, 8, 10])


def test_a_logarithmic_grid_has_a_constant_ratio() -> None:
    grid = Record(points=100, spacing="log").grid(0.0, 1e4, whole=False)
    assert grid.size == 100
    assert grid[0] == 0.0
    ratios = grid[2:] / grid[1:-1]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)
    # It begins a hundred-thousandth of the way to the end.
    assert grid[1] == pytest.approx(0.1)


def test_a_logarithmic_grid_counts_from_where_a_run_goes_on() -> None:
    grid = Record(points=50, spacing="log").grid(100.0, 1100.0, whole=False)
    fresh = Record(points=50, spacing="log").grid(0.0, 1000.0, whole=False)
    np.testing.assert_allclose(grid - 100.0, fresh, atol=1e-12 * 1100)


@given(
    st.integers(2, 300),
    st.sampled_from(["linear", "log"]),
    st.integers(0, 50),
    st.integers(1, 10_000),
    st.booleans(),
)
def test_every_grid_rises_from_start_to_end(
    points: int, spacing: str, start: int, length: int, whole: bool
) -> None:
    grid = Record(points, spacing).grid(float(start), float(start + length), whole=whole)
    assert grid[0] == start
    assert grid[-1] == start + length
    assert (np.diff(grid) > 0).all()
    assert grid.size <= points
    if whole:
        assert grid.dtype == np.int64


def test_given_times_are_recorded_besides_both_ends() -> None:
    record = Record.make([1.0, 5.0])
    assert record.grid(0.0, 8.0, whole=False).tolist() == [0, 1, 5, 8]
    assert record.grid(3.0, 5.0, whole=False).tolist() == [3, 5]
    assert record.grid(0.0, 8.0, whole=True).tolist() == [0, 1, 5, 8]


def test_make_takes_whatever_names_a_record() -> None:
    record = Record(points=7)
    assert Record.make(record) is record
    assert Record.make(None).points == 1000
    assert Record.make(7).points == 7
    assert Record.make("log").spacing == "log"
    assert Record.make(range(3)).at.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Record(points=1), r"record\.points = 1: must be a whole number, at least 2"),
        (lambda: Record.make(1), "record = 1: must be a whole number, at least 2"),
        (lambda: Record.make(2.5), "record = 2.5"),
        (lambda: Record.make("cubic"), r"record\.spacing = 'cubic': must be 'linear' or 'log'"),
        (lambda: Record.make([]), r"record\.at = .*increase strictly"),
        (lambda: Record.make([2.0, 1.0]), r"record\.at = .*increase strictly"),
        (lambda: Record.make([1.0, 1.0]), r"record\.at = .*increase strictly"),
        (lambda: Record.make([-1.0, 1.0]), r"record\.at = .*from 0 or above"),
        (lambda: Record.make([np.nan]), "record = .*finite"),
        (lambda: Record.make([[1.0]]), r"record\.shape = \(1, 1\)"),
        (
            lambda: Record.make([9.0]).grid(0.0, 8.0, whole=False),
            r"record\.at = 9\.0: the run ends at 8",
        ),
        (lambda: Record.make([0.5]).grid(0.0, 8.0, whole=True), r"record\.at = .*whole steps"),
    ],
)
def test_grids_that_cannot_be_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        make()
    assert "\n" not in str(refusal.value)
