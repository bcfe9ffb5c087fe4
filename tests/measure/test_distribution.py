"""Quantiles of many rows in little memory, against sorting all of them."""

import numpy as np
import pytest

from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.measure import Distribution

SHARES = np.linspace(0, 1, 101)


def seen_in_shares(rows: np.ndarray, size: int) -> Distribution:
    seen = Distribution.empty(rows.shape[1])
    for first in range(0, len(rows), size):
        seen = seen.added(rows[first : first + size])
    return seen


def ranks_are_within(seen: Distribution, rows: np.ndarray, error: float) -> bool:
    """Whether every quantile's rank among all rows is as near its share as that."""
    found = seen.quantiles(SHARES)
    # A value that stands several times has all of those ranks.
    ordered, columns = np.sort(rows, axis=0), range(rows.shape[1])
    low, high = (
        np.stack([np.searchsorted(ordered[:, c], found[:, c], side=side) for c in columns], axis=1)
        for side in ("left", "right")
    )
    wanted = np.ceil(SHARES * len(rows))[:, None]
    return bool((np.abs(wanted - np.clip(wanted, low + 1, high)) <= error * len(rows)).all())


def test_a_few_rows_are_held_as_they_are() -> None:
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    seen = seen_in_shares(rows, 700)
    assert seen.rank_error == 0
    ranks = np.maximum(np.arange(101) * len(rows) // 100, 1)
    np.testing.assert_array_equal(seen.quantiles(SHARES), np.sort(rows, axis=0)[ranks - 1])


@pytest.mark.parametrize("size", [999, 8192, 65_536])
@pytest.mark.parametrize("order", ["mixed", "rising", "few values"])
def test_the_ranks_of_many_rows_are_within_the_error_that_is_told(size: int, order: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.lognormal(size=(300_000, 1))
    if order == "rising":
        rows = np.sort(rows, axis=0)
    elif order == "few values":
        rows = np.round(rows)
    seen = seen_in_shares(rows, size)
    assert seen.count == len(rows)
    assert 0 < seen.rank_error < 5e-4
    assert ranks_are_within(seen, rows, seen.rank_error)
    assert sum(len(held) for held in seen.held) < 8192 * 7
    np.testing.assert_array_equal(seen.quantiles([0, 1])[:, 0], [rows.min(), rows.max()])


def test_shares_of_a_cluster_are_merged() -> None:
    rows = np.random.default_rng(2).normal(size=(200_000, 2))
    parts = [seen_in_shares(part, 5000) for part in np.array_split(rows, 7)]
    merged = Distribution.empty(2)
    for part in parts:
        merged = merged.merged(part)
    assert merged.count == len(rows)
    assert merged.rank_error < 1e-3
    assert ranks_are_within(merged, rows, merged.rank_error)


def test_what_is_no_number_counts_as_greater_than_all() -> None:
    rows = np.arange(10.0)[:, None]
    rows[7:] = np.nan
    found = Distribution.empty(1).added(rows).quantiles([0.1, 0.7, 0.8, 1.0])[:, 0]
    np.testing.assert_array_equal(found, [0, 6, np.nan, np.nan])


def test_it_comes_back_from_its_arrays() -> None:
    seen = seen_in_shares(np.random.default_rng(3).normal(size=(20_000, 2)), 3000)
    again = Distribution.of_arrays(seen.arrays())
    np.testing.assert_array_equal(again.quantiles(SHARES), seen.quantiles(SHARES))
    assert (again.count, again.rank_error) == (seen.count, seen.rank_error)
    with pytest.raises(CannotRead):
        Distribution.of_arrays((np.zeros(2), np.zeros((2, 3)), np.zeros((4, 2))))


def test_of_no_rows_nothing_is_known() -> None:
    assert np.isnan(Distribution.empty(2).quantiles(SHARES)).all()


def test_other_rows_and_shares_are_refused() -> None:
    seen = Distribution.empty(2)
    with pytest.raises(InvalidInput, match=r"rows .* must be \[R, 2\]"):
        seen.added(np.zeros((3, 4)))
    for shares in ([], [1.5], [-0.1], [np.nan], np.array([[0.5]])):
        with pytest.raises(InvalidInput, match="shares"):
            seen.quantiles(shares)
