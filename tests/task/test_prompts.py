"""Prompts as data, and the statistics that training sees of them."""

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.errors import InvalidInput
from saddlescope.task import InContextRegression, Prompts, Statistics, regression, statistics

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((50, 6, 3)), RANDOM.standard_normal((50, 6))


def padded() -> Prompts:
    """Prompts of many lengths."""
    lengths = RANDOM.integers(1, 6, 50)
    x, y = X.copy(), Y.copy()
    for place, length in enumerate(lengths):
        x[place, length:-1] = 0.0
        y[place, length:-1] = 0.0
    return Prompts(x, y, lengths)


MANY_LENGTHS = padded()


@pytest.mark.parametrize("data", [Prompts(X, Y), MANY_LENGTHS], ids=["fixed", "many lengths"])
def test_parts_of_a_prompt(data: Prompts) -> None:
    for place in (0, 7, 49):
        length = int(data.lengths[place])
        x, y = data.x[place], data.y[place]
        beta = sum(y[n] * x[n] for n in range(length)) / length
        np.testing.assert_allclose(data.summary[place], beta, rtol=1e-13)
        np.testing.assert_array_equal(data.query[place], x[-1])
        assert data.target[place] == y[-1]
        # T4: the columns of β x_qᵀ, stacked.
        feature = np.outer(beta, x[-1]).ravel(order="F")
        np.testing.assert_allclose(data.cubic_features[place], feature, rtol=1e-13)


def test_shape_is_known() -> None:
    data = Prompts(X, Y)
    assert (data.count, data.context_length, data.dimension) == (50, 5, 3)
    assert data.fixed_length == data.context_length
    assert MANY_LENGTHS.fixed_length is None
    assert repr(data) == "Prompts(50 prompts, context_length=5, dimension=3)"


@pytest.mark.parametrize(
    ("x", "y", "lengths", "message"),
    [
        (np.ones((3, 5)), np.ones((3, 5)), None, r"x\.shape = \(3, 5\): must be \(any, any, any\)"),
        (np.ones((3, 1, 2)), np.ones((3, 1)), None, r"x\.shape = .*N and D at least 1"),
        (np.ones((0, 5, 2)), np.ones((0, 5)), None, r"x\.shape = .*P, N and D"),
        (np.ones((3, 5, 2)), np.ones((3, 4)), None, r"y\.shape = \(3, 4\): must be \(3, 5\)"),
        (np.full((3, 5, 2), np.nan), np.ones((3, 5)), None, "x = .*finite"),
        (np.ones((3, 5, 2)), np.full((3, 5), np.inf), None, "y = .*finite"),
        (np.ones((3, 5, 2)), np.ones((3, 5)), [4, 4, 5], "lengths = .*from 1 to 4"),
        (np.ones((3, 5, 2)), np.ones((3, 5)), [4, 4, 0], "lengths = .*from 1 to 4"),
        (np.ones((3, 5, 2)), np.ones((3, 5)), [4, 4, 1.5], "lengths = .*whole numbers"),
        (np.ones((3, 5, 2)), np.ones((3, 5)), [4, 4, 3], "lengths = .*must be zero"),
        (np.ones((3, 5, 2)), np.ones((3, 5)), [4, 4], r"lengths\.shape = \(2,\): must be \(3,\)"),
        ("words", np.ones((3, 5)), None, "x = 'words': must be an array of real numbers"),
    ],
)
def test_bad_data_is_refused(x, y, lengths, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        Prompts(x, y, lengths)
    assert "\n" not in str(refusal.value)


def test_statistics_are_the_means_that_they_name() -> None:
    statistics = Prompts(X, Y).statistics()
    features, target = Prompts(X, Y).cubic_features, Y[:, -1]
    expected = np.mean([np.outer(row, row) for row in features], axis=0)
    np.testing.assert_allclose(statistics.second_moment, expected, atol=1e-14)
    expected = np.mean(target[:, None] * features, axis=0)
    np.testing.assert_allclose(statistics.cross_moment, expected, atol=1e-14)
    assert statistics.label_power == pytest.approx(np.mean(target**2), rel=1e-14)
    assert (statistics.count, statistics.context_length, statistics.dimension) == (50, 5, 3)
    assert repr(statistics) == "Statistics(50 prompts, dimension=3)"


def split(data: Prompts, borders: list[int]) -> Iterator[Prompts]:
    edges = sorted({0, data.count, *borders})
    for start, stop in pairwise(edges):
        part = slice(start, stop)
        yield Prompts(data.x[part], data.y[part], data.lengths[part])


@given(st.lists(st.integers(1, 49)), st.integers(1, 60))
def test_any_split_into_batches_gives_the_same(borders: list[int], chunk: int) -> None:
    whole = MANY_LENGTHS.statistics()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_CHUNK", chunk)
        parts = Statistics.from_batches(split(MANY_LENGTHS, borders))
    # Sums of 50 terms of order 1 in another order: √50 roundings of 1e-16, and some.
    np.testing.assert_allclose(parts.second_moment, whole.second_moment, atol=1e-13)
    np.testing.assert_allclose(parts.cross_moment, whole.cross_moment, atol=1e-13)
    assert parts.label_power == pytest.approx(whole.label_power, rel=1e-13)
    assert parts.count == 50
    assert parts.context_length is None


def test_batches_of_different_lengths_have_no_one_length() -> None:
    shorter = Prompts(X[:, 1:], Y[:, 1:])
    assert Statistics.from_batches([Prompts(X, Y), shorter]).context_length is None
    assert Statistics.from_batches([shorter, shorter]).context_length == 4


def test_no_batches_and_unlike_batches_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"batches = .*at least one batch"):
        Statistics.from_batches([])
    with pytest.raises(InvalidInput, match="dimension = 2: earlier batches have D = 3"):
        Statistics.from_batches([Prompts(X, Y), Prompts(X[:, :, :2], Y)])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cross_moment": np.ones(5)}, "cross_moment.shape"),
        ({"second_moment": np.ones((4, 3))}, "second_moment.shape"),
        ({"second_moment": np.full((4, 4), np.nan)}, "second_moment"),
        ({"label_power": float("nan")}, "label_power"),
        ({"label_power": -1.0}, "label_power"),
        ({"count": 0}, "count"),
        ({"context_length": 0}, "context_length"),
    ],
)
def test_statistics_that_exist_are_valid(change: dict, field: str) -> None:
    good = {
        "second_moment": np.eye(4),
        "cross_moment": np.ones(4),
        "label_power": 1.0,
        "count": 10,
        "context_length": 5,
    }
    Statistics(**good)
    with pytest.raises(InvalidInput) as refusal:
        Statistics(**{**good, **change})
    assert refusal.value.field == field


def test_memory_does_not_grow_with_the_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "_BATCH", 256)
    task = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)

    def peak(count: int) -> int:
        tracemalloc.start()
        task.statistics(count, seed=1)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(256)
    few, many = peak(4 * 256), peak(40 * 256)
    # A batch is 256·32·(4+1) numbers of 8 bytes; ten times as many must not hold one more of them.
    assert many - few < 256 * 32 * 5 * 8
