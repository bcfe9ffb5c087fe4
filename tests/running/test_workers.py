"""Work in several processes: results in order, one problem for all, and no process left behind."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.shell import AS_A_SHELL

from saddlescope.errors import CannotWrite, Interrupted, InvalidInput, SaddlescopeError
from saddlescope.running.cores import count_threads
from saddlescope.running.interruption import StopRequest
from saddlescope.running.parts import Parts
from saddlescope.running.workers import Lost, on_workers


def silent(shares: object, in_hand: object) -> None:
    pass


def square(number: int, parts: Parts) -> tuple[int, int, int]:
    list(parts.each("ab"))
    return number**2, os.getpid(), count_threads(1000)


def test_results_come_in_the_order_of_the_items_from_so_many_processes() -> None:
    shown: list[tuple[list[float], list[int]]] = []
    made = on_workers(
        square, range(5), 2, lambda shares, in_hand: shown.append((list(shares), list(in_hand)))
    )
    results = [one for one in made if not isinstance(one, Lost)]
    assert [result for result, _, _ in results] == [0, 1, 4, 9, 16]
    processes = {process for _, process, _ in results}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    # The cores are shared among them.
    assert {threads for _, _, threads in results} == {max(1, (os.cpu_count() or 1) // 2)}
    totals = [sum(shares) for shares, _ in shown]
    assert totals == sorted(totals)
    assert shown[1][1] == [0, 1]
    assert any(0.5 in shares for shares, _ in shown)


def die_at_two(number: int, parts: Parts) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_dies_costs_only_what_it_had_in_hand() -> None:
    made = on_workers(die_at_two, range(5), 2, silent)
    assert made == [0, 1, Lost("its process was killed by signal 9"), 3, 4]


def refuse_two(number: int, parts: Parts) -> int:
    if number == 2:
        raise InvalidInput("number", number, "must be another")
    return number


def test_bad_input_is_raised_as_it_is() -> None:
    with pytest.raises(InvalidInput, match="number = 2: must be another"):
        on_workers(refuse_two, range(5), 2, silent)


class NeedsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_in_its_own_way(number: int, parts: Parts) -> None:
    if number:
        raise NeedsTwo(1, 2)
    raise CannotWrite(Path("out"), OSError(28, "No space left on device"))


def test_an_exception_that_cannot_be_rebuilt_is_raised_as_its_text() -> None:
    with pytest.raises(CannotWrite, match="path = 'out': cannot be written: No space left"):
        on_workers(fail_in_its_own_way, [0], 1, silent)
    with pytest.raises(SaddlescopeError, match="NeedsTwo: 1 and 2"):
        on_workers(fail_in_its_own_way, [1], 1, silent)


def unknown_here() -> None:
    raise AttributeError("there is no such class here")


class Unknown:
    def __reduce__(self) -> tuple[object, tuple[()]]:
        return unknown_here, ()


def test_an_item_that_cannot_be_rebuilt_ends_the_work() -> None:
    with pytest.raises(AttributeError, match="no such class here"):
        on_workers(square, [1, Unknown(), 3], 1, silent)


def no_result(number: int, parts: Parts) -> object:
    return lambda: number


def test_what_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(Exception, match="pickle"):
        on_workers(no_result, range(2), 2, silent)


def warn(number: int, parts: Parts) -> None:
    logging.getLogger("saddlescope").warning("of %d", number)


def test_what_they_log_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    on_workers(warn, [7], 1, silent)
    assert "of 7" in caplog.messages


def loop_until_asked(folder: Path, number: int, parts: Parts) -> None:
    with StopRequest() as request:
        (folder / f"{number}-{os.getpid()}").touch()
        while not request.requested:
            time.sleep(0.01)
    (folder / f"{number}-stopped-by-{request.signal}").touch()
    raise Interrupted(None, request.signal)  # type: ignore[arg-type]


# Two loops are begun; then a signal comes to all processes, as from a terminal, or a kill to one.
DRIVER = """
import sys
from functools import partial
from pathlib import Path
from saddlescope.errors import Interrupted
from saddlescope.running.interruption import guard
from saddlescope.running.workers import on_workers
from tests.running.test_workers import loop_until_asked, silent

guard("interrupted")
try:
    on_workers(partial(loop_until_asked, Path(sys.argv[1])), range(3), 2, silent)
except Interrupted as stopped:
    print("stopped by", stopped.signal)
"""


def start_loops(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process whose two workers are in a loop; their ids."""
    process = subprocess.Popen(
        [*AS_A_SHELL, "-c", DRIVER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    while len(begun := sorted(path.name for path in folder.iterdir())) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process, [int(name.split("-")[1]) for name in begun]


def wait_for_end(workers: list[int]) -> None:
    while any(Path(f"/proc/{worker}/exe").exists() for worker in workers):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_of_them_reaches_each_loop_once(tmp_path: Path, number: int) -> None:
    process, workers = start_loops(tmp_path)
    os.killpg(process.pid, number)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said, complaint) == (0, f"stopped by {int(number)}\n", "")
    ended = {path.name for path in tmp_path.glob("*stopped*")}
    assert ended == {f"{item}-stopped-by-{int(number)}" for item in (0, 1)}
    wait_for_end(workers)


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    process, workers = start_loops(tmp_path)
    process.kill()
    process.communicate()
    wait_for_end(workers)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from saddlescope.errors import InvalidInput\n"
        "from saddlescope.running.workers import on_workers\n"
        "try:\n"
        "    on_workers(print, [1, 2], 2, lambda *_: None)\n"
        "except InvalidInput as wrong:\n"
        "    print(wrong)\n"
    )
    answer = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("jobs = 2: a process could not be started: a script does")
    assert answer.stderr == ""
