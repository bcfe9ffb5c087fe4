"""Parts within parts add up to the whole, for what shows it and for observers."""

import pytest

from saddlescope.running import Snapshot
from saddlescope.running.loop import run_job
from saddlescope.running.parts import Parts, Within, borders


def test_parts_take_their_share_of_the_whole() -> None:
    assert borders([1, 1, 2]) == [(0.0, 0.25), (0.25, 0.5), (0.5, 1.0)]


def test_a_whole_without_parts_is_done() -> None:
    shares: list[float] = []
    assert list(Parts(shares.append).each([])) == []
    assert shares == [1.0]


def test_parts_of_parts_add_up() -> None:
    shares: list[float] = []
    parts = Parts(shares.append)
    for _ in parts.each("ab", [1, 3]):
        for _ in parts.each("cd"):
            parts.done(0.5)
    assert shares == sorted(shares)
    assert {0.0625, 0.1875, 0.4375, 0.8125} <= set(shares)
    assert shares[-1] == 1


def test_a_job_moves_the_part_in_hand(counting) -> None:
    shares: list[float] = []
    parts = Parts(shares.append)
    for _ in parts.each("ab"):
        run_job(counting(end=20), [parts])
    assert shares == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0, 1.0]


def test_observers_see_a_part_as_a_piece_of_the_whole(counting) -> None:
    shares: list[float] = []
    observers = [lambda snapshot: shares.append(snapshot.share)]
    for part in borders([1, 3]):
        run_job(counting(end=20), [Within(observers, *part)])
    assert shares == [0.125, 0.25, 0.625, 1.0]


def test_a_failing_observer_of_the_whole_costs_nothing(
    counting, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(snapshot: Snapshot) -> None:
        raise ValueError("no")

    assert len(run_job(counting(end=20), [Within([broken], 0.0, 0.5)])) == 20
    assert "broken failed" in caplog.text
