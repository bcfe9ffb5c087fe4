"""Clusters: what is submitted to one, and one without a scheduler or without workers."""

import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dask
import distributed
import numpy as np
import pytest
from tests.sweep.conftest import make_sweep

import saddlescope as ss
from saddlescope.sweep import pools
from saddlescope.sweep._job import SweepJob
from saddlescope.sweep.kernel import Batch, BatchResult
from saddlescope.sweep.pools import AbstractPool, Workers
from saddlescope.sweep.store import working_store


def wait(batch: object) -> None:
    distributed.Event("end").wait()


def test_a_cluster_that_adapts_to_its_work_sees_enough_of_it_to_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "run_batch", wait)
    # As measured once the first batches are done, by the plan's choice of their size.
    durations = {"distributed.scheduler.default-task-durations": {"batch": "2s"}}
    with (
        dask.config.set(durations),
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        pool = Workers(client, [])
        number = 0
        while pool.has_room:
            pool.submit(cast(Any, SimpleNamespace(number=number)))
            number += 1
        while len(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])) < number:
            time.sleep(0.01)
        target = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.adaptive_target())
        distributed.Event("end", client).set()
        assert target > 4


def test_a_cluster_that_is_none_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saddlescope.sweep.pools._ANSWER", 0.5)
    for cluster, said in (
        ("tcp://127.0.0.1:9", "no scheduler answers there"),
        ("localhost", "must be an address like tcp://host:8786"),
        (8786, "must be an address like tcp://host:8786"),
    ):
        with pytest.raises(ss.InvalidInput, match=f"cluster = .*{said}"):
            make_sweep().run(tmp_path / "store", cluster=cluster)


def test_a_cluster_without_workers_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    class Scheduler:
        dashboard_link = None
        threads = 0

        def nthreads(self) -> dict[str, int]:
            return {"worker": self.threads} if self.threads else {}

    scheduler = Scheduler()
    pool = Workers(scheduler, ())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "saddlescope"):
        for threads in (0, 0, 1, 0):
            scheduler.threads, pool._asked_at = threads, -np.inf
            assert pool.has_room
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the cluster has no workers: waiting for one"] * 2


def test_workers_are_asked_for_after_the_last_batch_is_submitted(tmp_path: Path) -> None:
    class Gone(AbstractPool):
        asked = 0

        @property
        def has_room(self) -> bool:
            self.asked += 1
            return True

        def submit(self, batch: Batch) -> None:
            pass

        def collect(self, seconds: float) -> list[BatchResult]:
            return []

    pool = Gone()
    with working_store(tmp_path / "store", make_sweep().plan) as store:
        job = SweepJob(store, pool)
        job.advance(0, 1)
        before = pool.asked
        job.advance(0, 1)
    # Else nobody would learn that the cluster has no workers left.
    assert pool.asked > before
