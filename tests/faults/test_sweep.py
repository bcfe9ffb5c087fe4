"""Sweeps on a real cluster: scheduler, workers and client are killed, and the bits stay the same.

Dask's own command line starts the scheduler and the workers; the client is the user's command.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.faults.conftest import Soak
from tests.shell import AS_A_SHELL

from saddlescope.running.files import files_in

# Seconds after which a command counts as hanging.
PATIENCE = 240
PLAN = """
keep = ["final_loss", "drop_time", "drops"]

[base]
seeds = 2
model = { kind = "separate", heads = 3 }
task = { kind = "in_context_regression", spectrum = [0.6, 0.3], context_length = 31 }
method = { kind = "descent", learning_rate = 0.2, steps = 1000000 }

[axes]
init_scale = [0.05, 0.1, 0.2, 0.3, 0.4]
context_length = [10, 31]
"""
# Short batches, so that there are several.
CLIENT = (
    "from saddlescope.sweep import batches; batches._ladder = lambda most: [min(most, 4)]; "
    "from saddlescope.cli import main; main()"
)
BATCHES = 5


@dataclass
class Cluster:
    """A scheduler and two workers."""

    folder: Path
    environment: dict[str, str]
    port: int
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start what is not running."""
        if self.scheduler is None:
            at = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
            self.scheduler = self._dask("scheduler", *at)
        while len(self.workers) < 2:
            one = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            self.workers.append(self._dask("worker", self.address, *one))

    def kill_worker(self) -> None:
        _kill(self.workers.pop())

    def kill(self) -> None:
        for process in (self.scheduler, *self.workers):
            if process is not None:
                _kill(process)
        self.scheduler, self.workers = None, []

    def _dask(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)


@dataclass
class Client:
    """Commands that run the plan."""

    folder: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, store: Path, *words: str) -> subprocess.Popen[str]:
        plan = str(self.folder / "plan.toml")
        command = [*AS_A_SHELL, "-c", CLIENT, "sweep", plan]
        process = subprocess.Popen(
            [*command, "--out", str(store), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        self.started.append(process)
        return process


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = str(tmp_path_factory.mktemp("cache"))
    # Compiled once, run many times.
    return {**os.environ, "XDG_CACHE_HOME": cache, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}


@pytest.fixture(scope="module")
def client(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("client")
    (folder / "plan.toml").write_text(PLAN)
    client = Client(folder, environment)
    yield client
    for process in client.started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def cluster(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("cluster")
    # Workers keep what they compile, as those of a command do.
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    cluster = Cluster(folder, {**environment, **kept}, port)
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def undisturbed(client: Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The store of the plan, computed in one process."""
    store = tmp_path_factory.mktemp("undisturbed") / "store"
    assert finish(client.start(store, "--workers", "0")) == (0, "")
    return bits(store)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def bits(store: Path) -> dict[str, bytes]:
    names = [name for name in files_in(store) if not Path(name).name.startswith(".")]
    return {name: (store / name).read_bytes() for name in names}


def recorded(store: Path) -> dict[str, int]:
    """When each recorded batch was written."""
    chunks = (store / "status" / "c").glob("[0-9]*")
    return {chunk.name: chunk.stat().st_mtime_ns for chunk in chunks}


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.01)


def test_a_killed_worker_costs_nothing(
    client: Client, cluster: Cluster, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    cluster.start()
    store = tmp_path / "store"
    command = client.start(store, "--cluster", cluster.address)
    wait_for(lambda: len(recorded(store)) >= 1, command)
    assert command.poll() is None, finish(command)
    cluster.kill_worker()
    assert finish(command) == (0, "")
    assert bits(store) == undisturbed


def test_a_sweep_resumes_after_its_cluster_was_killed(
    client: Client, cluster: Cluster, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    cluster.start()
    store = tmp_path / "store"
    command = client.start(store, "--cluster", cluster.address)
    wait_for(lambda: len(recorded(store)) >= 1, command)
    assert command.poll() is None, finish(command)
    cluster.kill()
    code, said = finish(command)
    assert code == 1
    assert said == (
        "saddlescope: lost the scheduler; finished batches are kept, and the same command resumes\n"
    )
    before = recorded(store)
    assert 1 <= len(before) < BATCHES
    cluster.start()
    assert finish(client.start(store, "--cluster", cluster.address)) == (0, "")
    assert bits(store) == undisturbed
    after = recorded(store)
    assert {name: after[name] for name in before} == before, "nothing is computed twice"


def test_a_client_that_is_killed_at_any_moment_resumes(
    client: Client, cluster: Cluster, undisturbed: dict[str, bytes], tmp_path: Path, soak: Soak
) -> None:
    cluster.start()
    for turn in range(soak.count(2, 20)):
        store = tmp_path / f"store-{turn}"
        # Before the store exists, while it is made, and between batches.
        batches = int(soak.random.integers(0, BATCHES))
        later = float(soak.random.uniform(0, 0.3))
        command = client.start(store, "--cluster", cluster.address)
        wait_for(lambda s=store, b=batches: s.exists() and len(recorded(s)) >= b, command)  # type: ignore[misc]
        time.sleep(later)
        command.kill()
        finish(command)
        before = recorded(store)
        assert finish(client.start(store, "--cluster", cluster.address)) == (0, "")
        assert bits(store) == undisturbed, (batches, later)
        after = recorded(store)
        assert {name: after[name] for name in before} == before, "nothing is computed twice"


def test_a_local_sweep_that_is_interrupted_resumes(
    client: Client, undisturbed: dict[str, bytes], tmp_path: Path, soak: Soak
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM)[: soak.count(1, 2)]:
        store = tmp_path / f"store-{number}"
        command = client.start(store, "--workers", "1")
        wait_for(lambda store=store: len(recorded(store)) >= 1, command)  # type: ignore[misc]
        command.send_signal(number)
        code, said = finish(command)
        assert code == 128 + number
        assert said == "saddlescope: interrupted; run the same command again to resume\n"
        before = recorded(store)
        assert len(before) < BATCHES
        assert finish(client.start(store, "--workers", "0")) == (0, "")
        assert bits(store) == undisturbed
        after = recorded(store)
        assert {name: after[name] for name in before} == before, "nothing is computed twice"
