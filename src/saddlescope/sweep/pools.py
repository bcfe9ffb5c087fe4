"""Where batches run: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import abc
import importlib.util
import logging
import multiprocessing
import os
import queue
import signal
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.checks import whole_number
from saddlescope.errors import Interrupted, InvalidInput, SaddlescopeError
from saddlescope.running.cores import default_workers
from saddlescope.running.interruption import withheld
from saddlescope.running.observers import log
from saddlescope.sweep.kernel import Batch, BatchResult, failed_batch, run_batch

if TYPE_CHECKING:
    from distributed import Client, Future

# Batches submitted per thread: no worker waits for its next, and a cluster that Dask adapts to its
# work (as much as takes five seconds, at two seconds a batch) sees that there is more.
_SUBMITTED = 4
# Seconds between two requests for the number of workers.
_ASK_EVERY = 2.0
# Seconds to wait for a scheduler's answer.
_ANSWER = 10.0
# One thread per worker, so that results do not depend on the number of cores.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class ClusterLost(SaddlescopeError):
    """The scheduler of a cluster was lost."""


class AbstractPool(abc.ABC):
    """Runs batches and returns their results."""

    address: str | None = None
    """The address of a dashboard, if there is one."""

    @property
    @abc.abstractmethod
    def has_room(self) -> bool:
        """Whether it can take another batch."""

    @abc.abstractmethod
    def submit(self, batch: Batch) -> None:
        """Submit a batch."""

    @abc.abstractmethod
    def collect(self, seconds: float) -> list[BatchResult]:
        """The results of finished batches, waiting for one for at most `seconds`."""


class Here(AbstractPool):
    """This process, one batch after another."""

    def __init__(self) -> None:
        self._next: Batch | None = None

    @property
    def has_room(self) -> bool:
        return self._next is None

    def submit(self, batch: Batch) -> None:
        self._next = batch

    def collect(self, seconds: float) -> list[BatchResult]:
        assert self._next is not None
        try:
            result = run_batch(self._next)
        except Interrupted:
            # The sweep was interrupted, not only this batch.
            return []
        self._next = None
        return [result]


class Workers(AbstractPool):
    """The workers of a Dask cluster; a batch whose worker dies goes to another."""

    def __init__(self, client: Client, modules: Iterable[str | Path]) -> None:
        self.client = client
        self._waiting: dict[str, tuple[Future, Batch]] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._run = uuid.uuid4().hex[:8]
        self._threads: int | None = None
        self._asked_at = -_ASK_EVERY
        self.address = client.dashboard_link or None
        with _losing_the_scheduler():
            for path in modules:
                client.upload_file(str(path))

    @property
    def has_room(self) -> bool:
        now = time.monotonic()
        if now - self._asked_at >= _ASK_EVERY:
            # Workers come and go.
            before = self._threads
            with _losing_the_scheduler():
                self._threads, self._asked_at = sum(self.client.nthreads().values()), now
            if before != 0 and self._threads == 0:
                log.warning("the cluster has no workers: waiting for one")
        return len(self._waiting) < max(self._threads or 0, 1) * _SUBMITTED

    def submit(self, batch: Batch) -> None:
        key = f"batch-{batch.number}-{self._run}"
        with _losing_the_scheduler():
            future = self.client.submit(run_batch, batch, key=key, pure=False)
        self._waiting[key] = future, batch
        future.add_done_callback(lambda done: self._ended.put(done.key))

    def collect(self, seconds: float) -> list[BatchResult]:
        results = []
        with suppress(queue.Empty):
            results.append(self._result(self._ended.get(timeout=seconds)))
            while True:
                results.append(self._result(self._ended.get_nowait()))
        if self.client.status != "running":
            raise ClusterLost(_LOST)
        return results

    def _result(self, key: str) -> BatchResult:
        future, batch = self._waiting.pop(key)
        if future.status in ("cancelled", "lost"):
            raise ClusterLost(_LOST)
        with _losing_the_scheduler():
            if future.status == "error":
                problem = future.exception()
                return failed_batch(batch, f"{type(problem).__name__}: {problem}")
            result: BatchResult = future.result()
        return result


_LOST = "lost the scheduler; finished batches are kept, and the same command resumes"


@contextmanager
def _losing_the_scheduler() -> Iterator[None]:
    """Raise `ClusterLost` for whatever a broken connection raises."""
    try:
        yield
    except (OSError, TimeoutError, CancelledError):
        raise ClusterLost(_LOST) from None


def check_workers(cluster: object, workers: object) -> None:
    """Check the number of workers, the form of a scheduler's address, and that Dask is there."""
    if workers is not None:
        whole_number("workers", workers, at_least=0)
    if cluster is not None and workers is not None:
        raise InvalidInput("workers", workers, "a cluster has its own: give one of the two")
    if isinstance(cluster, str) and "://" not in cluster:
        raise InvalidInput("cluster", cluster, "must be an address like tcp://host:8786")
    if workers != 0 and importlib.util.find_spec("distributed") is None:
        raise InvalidInput(
            "workers", workers, "needs Dask: pip install 'saddlescope[cluster]', or take 0"
        )


@contextmanager
def pool_of(
    cluster: object, workers: int | None, modules: Iterable[str | Path]
) -> Iterator[AbstractPool]:
    """The pool for a Dask client, for the address of a scheduler, or with local workers.

    0 workers means this process; the default is one worker per core, or one for the GPU.
    """
    if cluster is None and workers == 0:
        yield Here()
        return
    import distributed

    if isinstance(cluster, distributed.Client):
        yield Workers(cluster, modules)
        return
    with _quietly():
        if cluster is None:
            count = default_workers() if workers is None else int(workers)
            with _local(count) as local, distributed.Client(local, set_as_default=False) as client:
                yield Workers(client, modules)
            return
        if not isinstance(cluster, str):
            raise InvalidInput("cluster", cluster, "must be an address like tcp://host:8786")
        try:
            client = distributed.Client(cluster, set_as_default=False, timeout=_ANSWER)
        except (OSError, ValueError):
            raise InvalidInput("cluster", cluster, "no scheduler answers there") from None
        with client:
            yield Workers(client, modules)


@contextmanager
def _local(count: int) -> Iterator[object]:
    """A cluster of spawned processes on this machine, each with one thread."""
    import dask
    from distributed import LocalCluster

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A starting worker runs its parent's script again; the parent reports the error.
        sys.exit(1)
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
    with dask.config.set({"distributed.nanny.pre-spawn-environ.XLA_FLAGS": flags}):
        try:
            # A terminal sends Ctrl-C to all processes; only the client is to react.
            with withheld([signal.SIGINT]):
                cluster = LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL + 1,
                )
        except RuntimeError:
            cure = 'in a script, sweep under `if __name__ == "__main__":`, or with workers=0'
            raise InvalidInput("workers", count, f"could not be started: {cure}") from None
        with cluster:
            yield cluster


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence Dask's log of lost connections, which are reported in one line instead."""
    rooms = ("distributed", "tornado", "asyncio")
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in rooms]
    loggers = [logging.getLogger(name) for name in names]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
