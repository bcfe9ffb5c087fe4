"""Running a sweep: submitting batches and writing their results, one round at a time."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.sweep.pools import AbstractPool
from saddlescope.sweep.store import Store

if TYPE_CHECKING:
    import xarray as xr

# Seconds to wait for a result before observers are called.
_WAIT = 0.3


class SweepJob(AbstractJob[int, "xr.Dataset"]):
    """The batches that a store lacks; the state is the number of batches that it has."""

    first_budget = 1
    has_even_pace = False

    def __init__(self, store: Store, pool: AbstractPool) -> None:
        self._store, self._pool = store, pool
        self._left = deque(np.flatnonzero(~store.done).tolist())
        self._rows, self._seconds = store.rows, store.seconds
        self._before = int(self._rows[store.done].sum())
        self._began = time.monotonic()

    @property
    def digest(self) -> str:
        return self._store.manifest.digest

    @property
    def address(self) -> str | None:
        """The address of Dask's dashboard, if there is one."""
        return self._pool.address

    def begin(self) -> int:
        return int(self._store.done.sum())

    def advance(self, state: int, budget: int) -> tuple[int, int]:
        # Asking for room says when a cluster has no workers left, so it comes first.
        while self._pool.has_room and self._left:
            self._pool.submit(self._store.batch(self._left.popleft()))
        results = self._pool.collect(_WAIT)
        for result in results:
            self._store.write(result)
        return self.begin(), len(results)

    def is_finished(self, state: int) -> bool:
        return bool(self._store.done.all())

    def share(self, state: int) -> float:
        done = self._seconds[self._store.done].sum()
        return float(done / self._seconds.sum())

    def headline(self, state: int) -> str:
        done, failed = self._rows[self._store.done].sum(), self._store.failures.sum()
        rate = (done - self._before) / max(time.monotonic() - self._began, 1e-9)
        progress = f"{done} of {self._rows.sum()} points, {rate:.3g}/s"
        return progress + (f", {failed} failed" if failed else "")

    def dataset(self, state: int) -> xr.Dataset:
        return self._store.dataset()

    def result(self, state: int) -> xr.Dataset:
        return self._store.dataset()

    def save(self, state: int) -> Saved:
        return Saved((self._store.done.copy(),))

    def restore(self, saved: Saved) -> int:
        # The store has the results.
        return self.begin()
