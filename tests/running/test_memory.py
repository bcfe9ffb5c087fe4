"""An ensemble that would not fit is refused before anything is allocated."""

import tracemalloc

import pytest

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.running import memory

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)


def test_what_fits_passes_and_what_does_not_says_by_how_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 2_400_000_000)
    memory.check_memory(seeds=1000, points=1000, numbers=100)
    with pytest.raises(InvalidInput) as refusal:
        memory.check_memory(seeds=1001, points=1000, numbers=100)
    message = str(refusal.value)
    assert message.startswith("seeds = 1001: 1000 recorded points of 100 numbers each")
    assert "2.4 GB are free" in message
    assert "fewer seeds, fewer points, or no weights" in message


def test_free_memory_is_between_nothing_and_everything() -> None:
    assert 2**20 < memory.available_bytes() < 2**50


@pytest.mark.parametrize(
    ("seeds", "record"),
    [(1000, 10**8), (1, 10**12), (10_000, ss.Record(points=10**8, weights=False))],
    ids=["seeds", "points", "losses alone"],
)
def test_a_run_that_would_not_fit_is_refused_before_anything_is_allocated(
    seeds: int, record
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="GB are free"):
            ss.train(
                ss.MergedAttention(2),
                TASK,
                method=ss.GradientFlow(until=10),
                seeds=seeds,
                record=record,
            )
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Nothing of the records, whose grid alone would take 800 MB.
    assert highest < 100e6


def test_more_seeds_than_an_ensemble_holds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="seeds = 10000001: must be at most 10000000"):
        ss.train(ss.MergedAttention(2), TASK, method=ss.GradientFlow(until=10), seeds=10_000_001)
