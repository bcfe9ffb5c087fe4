"""Work for all cores."""

import threading
from contextlib import ExitStack

import pytest

from saddlescope.running.cores import at_most_cores, count_cores, on_all_cores


def test_results_come_in_the_order_of_the_items() -> None:
    assert on_all_cores(lambda item: item * item, range(20)) == [n * n for n in range(20)]


def test_one_item_needs_no_thread() -> None:
    here = threading.get_ident()
    assert on_all_cores(lambda _: threading.get_ident(), [0]) == [here]


def test_no_more_threads_than_asked_for() -> None:
    names = on_all_cores(lambda _: threading.current_thread().name, range(50), most=1)
    assert len(set(names)) == 1
    assert count_cores() >= 1


def test_an_error_in_one_of_them_is_that_of_the_call() -> None:
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda item: 1 / item, [1, 0, 2])


def test_work_inside_work_stays_in_its_thread() -> None:
    def inside(_: int) -> set[int]:
        return {threading.get_ident(), *on_all_cores(lambda _: threading.get_ident(), range(9))}

    assert all(len(threads) == 1 for threads in on_all_cores(inside, range(4)))


def test_limits_of_two_threads_end_in_any_order() -> None:
    before = count_cores()
    first, second = ExitStack(), ExitStack()
    first.enter_context(at_most_cores(1))
    second.enter_context(at_most_cores(1))
    first.close()
    assert count_cores() == 1
    second.close()
    assert count_cores() == before
