"""A reproduction that was killed or interrupted goes on, and ends as if nothing had been."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = shlex.split(
    "reproduce grokking-recorded fig3 --spectrum .6,.3 --heads 3 --until 8000 --init-scale .02"
    " --points 400 --seeds 3 --no-film --json"
)

# Short segments with a checkpoint at each border; the process signals itself at the fourth.
DRIVER = """
import os, signal, sys
from saddlescope.cli import main
from saddlescope.dynamics import _job as job

signal.signal(signal.SIGINT, signal.default_int_handler)
job._FIRST_SEGMENT = 100
job._next_budget = lambda taken, seconds: 100
job._CHECKPOINT_SECONDS = -1.0
number, words = int(sys.argv[1]), sys.argv[2:]
write, calls = job.write_checkpoint, 0

def write_and_signal(*arguments):
    global calls
    calls += 1
    write(*arguments)
    if calls == 4:
        os.kill(os.getpid(), number)

job.write_checkpoint = write_and_signal
main(words)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The processes of this test share what they compile."""
    cache = str(tmp_path / "compiled")
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "EQX_ON_ERROR": "nan"}


def reproduce(folder: Path, number: int, environment: dict[str, str]) -> tuple[int, str, str]:
    """Run the command, which sends itself a signal (0: none); its code, output and complaint."""
    command = [sys.executable, "-c", DRIVER, str(number), *WORDS, "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180)
    return done.returncode, done.stdout, done.stderr


def claims(output: str) -> list[list[dict[str, object]]]:
    return [figure["claims"] for figure in json.loads(output)["figures"]]


def test_the_same_command_goes_on(tmp_path: Path, environment: dict[str, str]) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, undisturbed, _ = reproduce(whole, 0, environment)
    assert code == 0
    # What is finished already must be left alone.
    shutil.copytree(whole / "grokking-recorded", broken / "grokking-recorded")
    finished = broken / "grokking-recorded" / "data.nc"
    before = finished.stat().st_mtime_ns
    for number in (signal.SIGKILL, signal.SIGINT):
        code, output, complaint = reproduce(broken, number, environment)
        assert output == ""
        if number == signal.SIGINT:
            assert (code, complaint) == (1, "interrupted; the same command goes on from here\n")
        assert list((broken / "fig3" / "unfinished").rglob("staircase.npz"))
        assert not (broken / "fig3" / "record.json").exists()
    code, output, _ = reproduce(broken, 0, environment)
    assert code == 0
    assert claims(output) == claims(undisturbed)
    assert finished.stat().st_mtime_ns == before
    assert not (broken / "fig3" / "unfinished").exists()
