"""A guarded process answers signals at once, and a loop within it at the next border."""

import signal
import subprocess
import sys

import pytest

# The process says where it is and is then sent a signal; the main thread is in compiled code that
# never looks at signals.
DRIVER = """
import ctypes, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from saddlescope.running.interruption import StopRequest, guard

guard("interrupted; go on")
place = sys.argv[1]
if place == "anywhere":
    print("ready", flush=True)
    while True:
        ctypes.CDLL(None).sleep(30)
elif place == "loop":
    with StopRequest() as request:
        print("ready", flush=True)
        while not request.requested:
            time.sleep(0.01)
    print("stopped by", request.signal, flush=True)
elif place == "deaf loop":
    with StopRequest() as request:
        print("ready", flush=True)
        while not request.requested:
            time.sleep(0.01)
        print("asked", flush=True)
        time.sleep(30)
"""


def start(place: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_outside_a_loop_it_leaves_at_once_in_one_line(number: int, code: int) -> None:
    with start("anywhere") as process:
        wait_for(process, "ready")
        process.send_signal(number)
        assert process.wait(10) == code
        assert process.communicate()[1] == "saddlescope: interrupted; go on\n"


def test_a_process_that_leaves_while_it_starts_others_says_no_more_than_its_line() -> None:
    code = (
        "import multiprocessing, signal\n"
        "from saddlescope.running.interruption import ask, guard, withheld\n"
        "guard('interrupted')\n"
        "with withheld([signal.SIGINT]):\n"
        "    kept = multiprocessing.get_context('spawn').Queue()\n"
        "ask(signal.SIGINT, 'interrupted; go on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "saddlescope: interrupted; go on\n", "nothing about leaked semaphores"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_is_asked_to_stop(number: int) -> None:
    with start("loop") as process:
        wait_for(process, "ready")
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.communicate()[0] == f"stopped by {int(number)}\n"


def test_a_second_signal_does_not_wait() -> None:
    with start("deaf loop") as process:
        wait_for(process, "ready")
        process.send_signal(signal.SIGINT)
        wait_for(process, "asked")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_what_is_ignored_stays_ignored() -> None:
    code = (
        "import os, signal\n"
        "from saddlescope.running.interruption import guard\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "guard('interrupted')\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "went on\n"
