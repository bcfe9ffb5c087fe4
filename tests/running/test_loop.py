"""The one loop: segments, observers that cannot cost the result, and stopping."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from saddlescope.errors import Interrupted, InvalidInput
from saddlescope.running import AbstractObserver, Snapshot, StopButton, StopWhen, loop
from saddlescope.running.loop import next_budget, run_job
from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.running.programs import compiled


class Diary(AbstractObserver):
    """Writes down what it is told."""

    def __init__(self, saved: Saved | None = None) -> None:
        self.lines: list[str] = []
        self.saved = saved

    def begin(self, job: AbstractJob) -> Saved | None:
        self.lines.append("begin")
        return self.saved

    def observe(self, snapshot: Snapshot) -> None:
        self.lines.append(f"{snapshot.share:.1f}")

    def end(self, snapshot: Snapshot | None) -> None:
        self.lines.append("end" if snapshot is None else f"end at {snapshot.share:.1f}")


def test_a_job_is_carried_out_under_the_eyes_of_its_observers(counting) -> None:
    diary = Diary()
    assert run_job(counting(end=30), [diary]) == list(range(30))
    assert diary.lines == ["begin", "0.3", "0.7", "1.0", "end at 1.0"]


def test_what_an_observer_kept_is_where_it_goes_on(counting) -> None:
    job = counting(end=30)
    diary = Diary(job.save(20))
    assert len(run_job(job, [diary])) == 30
    assert diary.lines == ["begin", "1.0", "end at 1.0"]


def test_a_snapshot_gives_the_records_so_far(counting) -> None:
    sizes: list[int] = []
    run_job(counting(end=30), [lambda snapshot: sizes.append(snapshot.dataset.sizes["time"])])
    assert sizes == [10, 20, 30]


def test_segments_last_about_half_a_second() -> None:
    assert next_budget(100, 100, 0.25, 0.5) == 200
    assert next_budget(100, 100, 1e-9, 0.5) == 800, "growth is bounded"
    assert next_budget(100, 100, 5.0, 0.5) == 10
    assert next_budget(100, 7, 0.01, 0.5) == 100, "what was cut short does not shrink the next"
    assert next_budget(1, 1, 100.0, 0.5) == 1


def test_an_observer_that_fails_is_reported_once_and_costs_nothing(
    counting, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(snapshot: Snapshot) -> None:
        raise ValueError("no such file\nreally")

    diary = Diary()
    with caplog.at_level(logging.WARNING, "saddlescope"):
        assert len(run_job(counting(end=50), [broken, diary])) == 50
    (message,) = [record.getMessage() for record in caplog.records]
    assert "broken" in message
    assert "ValueError" in message
    assert diary.lines[-1] == "end at 1.0"


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_an_observer_may_fail_at_either_end(
    moment: str, counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Diary, _: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Diary, moment, fail)
    assert len(run_job(counting(end=50), [Diary()])) == 50
    assert "Diary failed" in caplog.text


@pytest.mark.parametrize(
    "observers",
    [3, "bar", [3], [Diary], None, StopButton()],
    ids=["number", "word", "a number", "a class", "nothing", "one alone"],
)
def test_what_is_no_observer_is_refused(observers: object, counting) -> None:
    with pytest.raises(InvalidInput, match="observers"):
        run_job(counting(), observers)


def test_a_condition_stops_it_with_what_was_computed(counting) -> None:
    diary = Diary()
    with pytest.raises(Interrupted) as stopped:
        run_job(counting(), [StopWhen(lambda snapshot: snapshot.share >= 0.3), diary])
    assert stopped.value.signal is None
    assert stopped.value.snapshot.result == list(range(30))
    assert diary.lines[-1] == "end at 0.3"
    assert run_job(stopped.value.snapshot.job, (), stopped.value.snapshot.state) == list(range(100))


def test_a_button_stops_it_from_another_thread(counting) -> None:
    button, begun = StopButton(), threading.Event()

    def slow(snapshot: Snapshot) -> None:
        begun.set()
        time.sleep(0.001)

    def press() -> None:
        begun.wait()
        button.press()

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(Interrupted):
        run_job(counting(end=10**9), [slow, button])
    thread.join()


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A signal that comes: where the tests were started with it ignored it would not."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_waits_for_the_border(number: int, counting) -> None:
    def send(snapshot: Snapshot) -> None:
        if snapshot.share == 0.2:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted) as stopped:
        run_job(counting(), [send])
    assert stopped.value.signal == number
    assert stopped.value.snapshot.share == 0.2
    assert signal.getsignal(number) is signal.default_int_handler


def test_an_observer_that_stops_too_does_not_hide_the_signal(number: int, counting) -> None:
    def send(snapshot: Snapshot) -> None:
        os.kill(os.getpid(), number)

    with pytest.raises(Interrupted) as stopped:
        run_job(counting(), [send, StopWhen(lambda snapshot: True)])
    assert stopped.value.signal == number


def test_a_stop_in_the_last_segment_is_not_swallowed(counting) -> None:
    with pytest.raises(Interrupted) as stopped:
        run_job(counting(), [StopWhen(lambda snapshot: snapshot.is_finished)])
    assert len(stopped.value.snapshot.result) == 100


def test_a_signal_while_the_result_is_put_together_costs_nothing(number: int, counting) -> None:
    job = counting(end=30)
    put_together = job.result

    def result(state: int) -> list[int]:
        os.kill(os.getpid(), number)
        return put_together(state)

    job.result = result
    with pytest.raises(Interrupted) as stopped:
        run_job(job)
    assert stopped.value.signal == number
    assert stopped.value.snapshot.result == list(range(30))


def test_observers_end_where_the_job_itself_fails(counting) -> None:
    class Failing(counting):
        def advance(self, state: int, budget: int) -> tuple[int, int]:
            if state == 20:
                raise MemoryError
            return super().advance(state, budget)

    diary = Diary()
    with pytest.raises(MemoryError):
        run_job(Failing(), [diary])
    assert diary.lines[-1] == "end at 0.2"


def test_a_job_that_gets_nowhere_says_so_and_how_to_go_on(
    counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            self.now += 1.0
            return self.now

    monkeypatch.setattr(loop, "time", Clock())
    observers = [StopWhen(lambda snapshot: snapshot.seconds > 60)]
    with pytest.raises(Interrupted):
        run_job(counting(end=10**9), observers)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "hours are left" in message
    assert "take less of it" in message
    caplog.clear()
    run_job(counting(end=200))
    assert not caplog.records


@pytest.mark.parametrize("segment", [1, 2])
def test_a_segment_that_compiles_for_long_is_not_slow(
    counting, segment: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Clock:
        now = calls = 0

        def monotonic(self) -> float:
            # Called at the start, and then before and after every segment.
            self.calls += 1
            self.now += 100_000 if self.calls == 1 + 2 * segment else 1
            return float(self.now)

    class Compiling(counting):
        def advance(self, state: int, budget: int) -> tuple[int, int]:
            if len(self.budgets) == segment - 1:
                compiled(lambda: None)()
            return super().advance(state, budget)

    monkeypatch.setattr(loop, "time", Clock())
    run_job(Compiling(end=200))
    assert not caplog.records


def test_the_time_left_follows_from_the_pace(counting) -> None:
    job = counting()
    with pytest.raises(Interrupted) as stopped:
        run_job(job, [lambda snapshot: snapshot.stop()])
    snapshot = stopped.value.snapshot
    assert Snapshot(job, 25, 5.0, snapshot.request).seconds_left == pytest.approx(15.0)
    assert Snapshot(job, 0, 5.0, snapshot.request).seconds_left is None
