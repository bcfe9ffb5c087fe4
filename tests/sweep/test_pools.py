import time
from types import SimpleNamespace
from typing import Any, cast

import dask
import distributed
import pytest

from saddlescope.sweep import pools


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
        pool = pools.Workers(client, [])
        number = 0
        while pool.has_room:
            pool.submit(cast(Any, SimpleNamespace(number=number)))
            number += 1
        while len(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])) < number:
            time.sleep(0.01)
        target = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.adaptive_target())
        distributed.Event("end", client).set()
        assert target > 4
