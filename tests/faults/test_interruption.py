"""Interrupted and killed commands: one line, its exit code, and the same bits in the end.

Every command is a process of its own, started as users start it.
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.shell import AS_A_SHELL

from saddlescope.running.files import files_in

COMMANDS = {
    "train": "train --spectrum .6,.3 --heads 3 --seeds 3 --init-scale .1 --points 50"
    " --steps 1000000 --learning-rate .02",
    "reproduce": "reproduce fig3 --spectrum .6,.3 --heads 3 --until 8000 --init-scale .02"
    " --points 400 --seeds 3 --no-film",
    "transformer": "transformer grokking --preset quick --p 5 --d-model 8 --d-mlp 8 --steps 1000"
    " --record 5",
}
# Seconds after which a command counts as one that hangs.
PATIENCE = 300
ASKING = (signal.SIGINT, signal.SIGTERM)
# All that is said about numbers; pictures and pages hold dates and durations.
NUMBERS = ("*.nc", "comparison.json", "run/**/*")

# Runs the command line with short segments and a checkpoint at each border, and signals itself
# at a chosen call of a chosen function.
DRIVER = """
import os, sys, time
from importlib import import_module

target, call, number, words = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
sys.argv = ['saddlescope', *words]

def signal_at_target():
    home, *names, name = target.split('.')
    owner = import_module(home.replace('/', '.'))
    for part in names:
        owner = getattr(owner, part)
    function, calls = getattr(owner, name), 0

    def wrapped(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), number)
            # Outside the loop the process is left within these; in it the signal waits.
            time.sleep(.5)
        return function(*arguments, **options)

    setattr(owner, name, wrapped)

def shorten_segments():
    from saddlescope.dynamics._job import Job
    from saddlescope.running import _checkpoint, loop
    from saddlescope.transformer._training import _Training

    loop.next_budget = lambda budget, *rest: budget
    Job.first_budget = 100_000 if 'train' in words else 200
    _Training.first_budget = 100
    _checkpoint.Checkpoint.__init__.__kwdefaults__['every'] = 0

from saddlescope.cli import main, _app
run = _app.run
def run_prepared(words):
    signal_at_target()
    shorten_segments()
    return run(words)
_app.run = run_prepared
main()
"""


@dataclass
class Commands:
    """Starts commands that share what they compile."""

    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start Python, with Ctrl-C as a shell leaves it."""
        process = subprocess.Popen(
            [*AS_A_SHELL, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.started.append(process)
        return process

    def saddlescope(self, command: str, out: Path) -> subprocess.Popen[str]:
        return self.start("-m", "saddlescope", *shlex.split(command), "--out", str(out))

    def signalling(
        self, target: str, call: int, number: int, command: str, out: Path
    ) -> tuple[int, str]:
        """Let a command signal itself where it calls something; its exit code and complaint."""
        place = (target, str(call), str(int(number)))
        words = (*shlex.split(command), "--out", str(out))
        process = self.start("-c", DRIVER, *place, *words)
        _, complaint = process.communicate(timeout=PATIENCE)
        return process.returncode, complaint

    def finish(self, command: str, out: Path) -> str:
        """Run a command to its end; what it said."""
        process = self.saddlescope(command, out)
        said, complaint = process.communicate(timeout=PATIENCE)
        # The verdicts of a figure in a setting of our own may be odd.
        assert process.returncode in (0, 1), complaint
        assert complaint == ""
        return said

    def interrupt(self, command: str, out: Path, number: int, seconds: float) -> bool:
        """Send a signal so long after the start; whether the command had not ended by then."""
        began = time.monotonic()
        process = self.saddlescope(command, out)
        self._wait_for_guard(process.pid)
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        process.send_signal(number)
        _, complaint = process.communicate(timeout=PATIENCE)
        if number == signal.SIGKILL:
            assert complaint == "", f"killed after {seconds} s"
            return process.returncode == -number
        if process.returncode in (0, 1):
            assert complaint == "", f"signal {number} after {seconds} s"
            return False
        assert_one_line(process.returncode, complaint, number)
        return True

    def _wait_for_guard(self, pid: int) -> None:
        """Wait until the process has a handler: before, it is Python that starts, not ours."""
        status = Path(f"/proc/{pid}/status")
        while status.exists():
            caught = status.read_text().partition("SigCgt:")[2].split()
            if not caught or int(caught[0], 16) >> (signal.SIGTERM - 1) & 1:
                return
            time.sleep(0.01)


def assert_one_line(code: int, complaint: str, number: int) -> None:
    assert code == 128 + number, complaint
    assert complaint.count("\n") == 1, complaint
    assert complaint.startswith("saddlescope: interrupted; run the same command again to resume")


def numbers(out: Path) -> dict[str, bytes]:
    """Every file that holds numbers, byte by byte."""
    paths = {path for pattern in NUMBERS for path in out.rglob(pattern) if path.is_file()}
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    kept = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled"))}
    # Compiled once, run many times.
    made = Commands({**os.environ, **kept, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"})
    yield made
    for process in made.started:
        process.kill()
        with process:
            pass


@dataclass(frozen=True)
class Whole:
    """What an undisturbed command leaves, and how long it takes."""

    numbers: dict[str, bytes]
    files: set[str]
    seconds: float


def undisturbed(command: str, commands: Commands, out: Path) -> Whole:
    began = time.monotonic()
    commands.finish(command, out)
    seconds = time.monotonic() - began
    whole = Whole(numbers(out), set(files_in(out)), seconds)
    assert whole.numbers
    return whole


# Where a signal comes: what is called, which time, and the signal.
PLACES = {
    "train": {
        "importing": ("importlib/_bootstrap_external.SourceFileLoader.exec_module", 300, 2),
        "preparing": ("saddlescope/dynamics/_job.Job.__init__", 1, 15),
        "compiling": ("jax/_src/compiler.compile_or_get_cached", 3, 2),
        "between segments": ("saddlescope/dynamics/_job.Job.advance", 4, 9),
        "asked between segments": ("saddlescope/dynamics/_job.Job.advance", 4, 15),
        "writing a checkpoint": ("saddlescope/running/files._flush", 5, 9),
        "saving": ("saddlescope/storage._write", 2, 2),
        "sealing what is saved": ("saddlescope/storage.Sealed.write", 1, 9),
        "comparing": ("saddlescope/trajectory.Trajectory.compare", 1, 15),
        "drawing": ("matplotlib/figure.Figure.savefig", 2, 2),
    },
    "reproduce": {
        "between segments": ("saddlescope/dynamics/_job.Job.advance", 4, 9),
        "judging": ("saddlescope/figures/kit/reproduction.Claims.__init__", 1, 15),
        "writing a picture": ("saddlescope/running/files._flush", 10, 2),
    },
    "transformer": {
        "between segments": ("saddlescope/transformer/_training.advance", 5, 9),
        "between a record and the state": ("saddlescope/running/_checkpoint.write_bytes", 4, 9),
        "keeping metrics": ("saddlescope/transformer/_experiment.save_metrics", 1, 15),
    },
}
# Tried in every run of the tests; the others under soak.
EVERY_TIME = {
    ("train", "importing"),
    ("train", "between segments"),
    ("train", "comparing"),
    ("reproduce", "between segments"),
    ("transformer", "between a record and the state"),
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_signals_cost_nothing(verb: str, commands: Commands, soak, tmp_path: Path) -> None:
    """At chosen places, then at random moments, several in a row; then the command finishes."""
    command, random, out = COMMANDS[verb], soak.random, tmp_path / "broken"
    whole = undisturbed(command, commands, tmp_path / "whole")
    for name, (target, call, number) in PLACES[verb].items():
        if not soak.full and (verb, name) not in EVERY_TIME:
            continue
        code, complaint = commands.signalling(target, call, number, command, out)
        if number == signal.SIGKILL:
            assert (code, complaint) == (-number, ""), name
        else:
            assert_one_line(code, complaint, number)
        assert not (out / "run").exists() or name in ("comparing", "drawing"), name
    interrupted, wanted, duration = 0, soak.count(1, 50), whole.seconds
    while interrupted < wanted:
        for _ in range(min(4, wanted - interrupted)):
            number = [*ASKING, signal.SIGKILL][random.integers(3)]
            seconds = random.uniform(0.2, duration)
            if commands.interrupt(command, out, number, seconds):
                interrupted += 1
            else:
                # It had ended by then: the first one compiled, or the machine was busier.
                duration = max(1.0, seconds)
        commands.finish(command, out)
        assert numbers(out) == whole.numbers
        assert set(files_in(out)) == whole.files, "something is left, or missing"
        shutil.rmtree(out)
    print(f"{len(PLACES[verb])} places and {interrupted} moments of {verb}")


def test_overwriting_goes_on_from_its_own_checkpoint(commands: Commands, tmp_path: Path) -> None:
    """Which is seen in the count of what was written, that only going on makes larger."""
    out = tmp_path / "out"
    (out / "checkpoint").mkdir(parents=True)
    (out / "checkpoint" / "manifest.json").write_text("of another run")
    place = "saddlescope/dynamics/_job.Job.advance"
    command = f"{COMMANDS['train']} --overwrite"
    for time_ in range(2):
        code, complaint = commands.signalling(place, 3, signal.SIGTERM, command, out)
        assert_one_line(code, complaint, signal.SIGTERM)
        manifest = (out / "checkpoint" / "manifest.json").read_text()
        # At the end of each segment, and once more when it stopped.
        assert f'"count": {4 * (time_ + 1)}' in manifest


def test_figures_made_at_once_are_interrupted_as_one(
    commands: Commands, soak, tmp_path: Path
) -> None:
    """Ctrl-C comes to all processes: one line, what is finished is kept, and the rest goes on."""
    command = "reproduce fig3 fig4 fig5 --quick --no-film --jobs 2"
    whole = undisturbed(command, commands, tmp_path / "whole")
    out = tmp_path / "broken"
    for number in ASKING if soak.full else ASKING[:1]:
        process = commands.saddlescope(command, out)
        # The first that is finished.
        while not list(out.glob("*/manifest.json")) and process.poll() is None:
            time.sleep(0.01)
        started = psutil.Process(process.pid)
        all_of_them = [started, *started.children()]
        for one in all_of_them:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
        _, complaint = process.communicate(timeout=PATIENCE)
        if process.returncode not in (0, 1):
            assert_one_line(process.returncode, complaint, number)
        assert psutil.wait_procs(all_of_them, timeout=PATIENCE)[1] == []
        kept = {path: path.stat().st_mtime_ns for path in out.glob("*/manifest.json")}
        assert kept
        commands.finish(command, out)
        assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
        assert numbers(out) == whole.numbers
        assert set(files_in(out)) == whole.files, "something is left, or missing"
        shutil.rmtree(out)


def test_a_second_process_is_refused_and_told_who_is_first(
    commands: Commands, tmp_path: Path
) -> None:
    first = commands.saddlescope(COMMANDS["train"].replace("1000000", "900000000"), tmp_path)
    while not (tmp_path / ".holder").exists() or not (tmp_path / ".holder").read_text():
        assert first.poll() is None
        time.sleep(0.05)
    second = commands.saddlescope(COMMANDS["train"], tmp_path)
    _, complaint = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert complaint.count("\n") == 1
    assert f"is in use by process {first.pid} of " in complaint
    first.send_signal(signal.SIGTERM)
    _, complaint = first.communicate(timeout=PATIENCE)
    assert_one_line(first.returncode, complaint, signal.SIGTERM)


NOWHERE = """
import saddlescope as ss

task = ss.InContextRegression([.6, .3], context_length=31)
try:
    method = ss.GradientDescent(learning_rate=1e-6, steps=10**13)
    ss.train(ss.SeparateAttention(2), task, method=method)
except ss.Interrupted as stopped:
    print(stopped.signal, stopped.snapshot.result.is_complete)
"""


def test_a_run_that_gets_nowhere_says_so(commands: Commands) -> None:
    process = commands.start("-c", NOWHERE)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert "of the run: at this pace" in said or "of the run: no end is in sight" in said
    assert "Ctrl-C stops it and keeps what is computed" in said
    process.send_signal(signal.SIGINT)
    answer, complaint = process.communicate(timeout=PATIENCE)
    assert (answer, complaint) == ("2 False\n", "")
