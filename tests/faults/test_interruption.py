"""Killed and interrupted commands: the same command goes on, and ends as if nothing had been."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import saddlescope as ss
from saddlescope.cli import main
from saddlescope.dynamics._checkpoint import write_checkpoint

COMMAND = shlex.split(
    "train --spectrum .6,.3 --heads 3 --seeds 3 --init-scale .1 --points 200 --out out"
)
METHODS = {
    "descent": shlex.split("--steps 5000 --learning-rate .2"),
    "flow": shlex.split("--until 2000"),
}

# Runs the command line with short segments and a checkpoint at each border, and signals itself at a
# chosen place. Ctrl-C is made to count even where the tests were started with it ignored.
DRIVER = """
import os, signal, sys
from saddlescope import storage
from saddlescope.cli import main
from saddlescope.dynamics import _checkpoint as checkpoint, _job as job

signal.signal(signal.SIGINT, signal.default_int_handler)
job._FIRST_SEGMENT = 100
job._next_budget = lambda taken, seconds: 100
job._CHECKPOINT_SECONDS = -1.0
place, number, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
calls = 0

def signal_at(third, function):
    def wrapped(*arguments, **options):
        global calls
        calls += 1
        if calls == third:
            os.kill(os.getpid(), number)
        return function(*arguments, **options)
    return wrapped

if place == 'between segments':
    job.write_checkpoint = signal_at(4, job.write_checkpoint)
elif place == 'while a checkpoint is written':
    checkpoint.os.fsync = signal_at(4, checkpoint.os.fsync)
elif place == 'while the run is saved':
    storage._write = signal_at(2, storage._write)
sys.argv = ['saddlescope', *words]
main(words)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The processes of this file share what they compile."""
    cache = tmp_path_factory.mktemp("compiled")
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Commands that are run in this process set these for good.
    for name in ("COMPILATION_CACHE_DIR", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(f"JAX_{name}", "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")


def stop(words: list[str], place: str, number: int, environment: dict[str, str]) -> tuple[int, str]:
    """Let a command signal itself at a place; its exit code and what it complained."""
    command = [sys.executable, "-c", DRIVER, place, str(int(number)), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stderr


def again(words: list[str]) -> ss.Trajectory:
    """Give the same command again and read what it left."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    assert not Path("out/checkpoint.npz").exists()
    return ss.load("out/run")


def uninterrupted(method: str) -> ss.Trajectory:
    """The same run, in one go, by way of the library."""
    methods = {
        "descent": ss.GradientDescent(learning_rate=0.2, steps=5000),
        "flow": ss.GradientFlow(until=2000),
    }
    return ss.train(
        ss.SeparateAttention(heads=3),
        ss.InContextRegression([0.6, 0.3], context_length=31),
        method=methods[method],
        init_scale=0.1,
        seeds=3,
        record=200,
    )


@pytest.mark.parametrize(
    ("place", "method"),
    [
        ("between segments", "descent"),
        ("between segments", "flow"),
        ("while a checkpoint is written", "descent"),
        ("while the run is saved", "descent"),
    ],
)
def test_a_killed_command_goes_on_and_ends_with_the_same_bits(
    place: str, method: str, environment: dict[str, str]
) -> None:
    words = [*COMMAND, *METHODS[method]]
    code, _ = stop(words, place, signal.SIGKILL, environment)
    assert code == -signal.SIGKILL
    assert not Path("out/run").exists(), "half a run is none"
    whole, told = uninterrupted(method), list[ss.Progress]()
    rest = ss.train(whole.setting, progress=told.append, checkpoint="out/checkpoint.npz")
    # Three checkpoints of a hundred steps each had been written.
    assert all(progress.share > 300 / 5000 for progress in told), "it began anew"
    assert rest.equals(whole)
    if method == "descent" and place == "between segments":
        assert again(words).equals(whole)


def test_ctrl_c_leaves_one_line_and_a_run_that_goes_on(environment: dict[str, str]) -> None:
    words = [*COMMAND, *METHODS["descent"]]
    code, complaint = stop(words, "between segments", signal.SIGINT, environment)
    assert code == 1
    assert complaint.count("\n") == 1
    assert "interrupted" in complaint
    assert "out/checkpoint.npz" in complaint
    assert Path("out/checkpoint.npz").exists()
    assert again(words).equals(uninterrupted("descent"))


@pytest.mark.parametrize("place", ["save", "compare"])
def test_ctrl_c_after_training_is_one_line_too(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ss.Trajectory, place, interrupt)
    with pytest.raises(SystemExit) as end:
        main([*COMMAND, *METHODS["descent"]])
    assert end.value.code == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "interrupted" in complaint


def test_another_commands_checkpoint_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint("out/checkpoint.npz", "another", [])
    words = [*COMMAND, *METHODS["descent"]]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "belongs to another setting" in complaint
    assert again([*words, "--overwrite"]).equals(uninterrupted("descent"))
