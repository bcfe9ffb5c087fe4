"""Sweeps: the engine's rate against that of the compiled batch, and the gain from two workers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import jax

import saddlescope as ss
from benchmarks.settings import CONTEXT_LENGTH
from benchmarks.table import Findings, Row
from benchmarks.timing import repeat
from saddlescope.dynamics._many import SummariesJob
from saddlescope.running.cores import at_most_cores
from saddlescope.running.files import files_in
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.kernel import Batch, run_batch
from saddlescope.sweep.pools import Workers, pool_of
from saddlescope.sweep.store import working_store

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")

TITLE = "Sweeps (flow to t = 20 000, D = 4, H = 5)"
LEAST_SHARE, TWO_WORKERS = 0.8, 1.7
SEEDS = 16
# A batch for a GPU: as many scales, with as many seeds each.
GPU_SCALES, GPU_SEEDS = 1024, 256
# The extrapolated sweep and its workers, and the empty tasks that measure the scheduler's rate.
POINTS, FLEET, EMPTY = 10**7, 100, 2000


@dataclass(frozen=True)
class _Alone:
    """Rows per second of a batch without the engine, on one core."""

    compiled: float
    """The compiled program alone."""
    whole: float
    """From settings to columns."""


def measure(quick: bool) -> Findings:
    """Drop times over the scale of the start, by gradient flow, in batches of about two seconds."""
    # Batches of 256 rows: two of them, or six.
    sweep = _sweep(32 if quick else 96)
    batches = Batches(sweep.plan)
    batch = batches[len(batches) // 2]
    if jax.default_backend() != "cpu":
        return Findings(TITLE, rows=_gpu_rows(batch))
    with pool_of(None, 2, ()) as pool, tempfile.TemporaryDirectory() as folder:
        assert isinstance(pool, Workers)
        client = pool.client
        _in_each_worker(client, run_batch, batch)  # compiles it
        # Both workers at once, as in the engine.
        both = _in_each_worker(client, _alone, batch)
        rates = {2: _engine_rate(sweep, client, Path(folder) / "two")}
        client.cluster.scale(1)
        while len(client.nthreads()) > 1:
            time.sleep(0.1)
        (one,) = _in_each_worker(client, _alone, batch)
        rates[1] = _engine_rate(sweep, client, Path(folder) / "one")
        costs = _client_costs(sweep, client, Path(folder) / "one")
    raw = {1: one.compiled, 2: sum(worker.compiled for worker in both)}
    rows = [_kernel_row(batch, one, LEAST_SHARE)]
    for workers in (1, 2):
        rows.append(
            Row(
                what=f"{batches.rows} points, {workers} worker{'s' * (workers > 1)}, once compiled",
                ours=batches.rows / rates[workers],
                baseline=batches.rows / raw[workers],
                against="the compiled batch on as many cores",
                ratio_above=LEAST_SHARE,
                note=f"{rates[workers]:.0f} points/s",
            )
        )
    rows.append(
        Row(
            what="two workers",
            ours=batches.rows / rates[2],
            baseline=batches.rows / rates[1],
            against="one worker",
            ratio_above=TWO_WORKERS,
        )
    )
    rows.append(_on_paper(batches, rates[1], costs))
    return Findings(TITLE, rows=tuple(rows))


def _sweep(
    scales: int, seeds: int = SEEDS, batch_rows: int | None = None, keep: Sequence[str] = ()
) -> ss.Sweep:
    task = ss.InContextRegression("power:4:1", CONTEXT_LENGTH)
    flow = ss.GradientFlow(until=20_000)
    base = ss.Setting(ss.SeparateAttention(heads=5), task, flow, seeds=seeds)
    scale = ss.log_range(0.003, 0.1, scales)
    return ss.Sweep(base, keep=keep, batch_rows=batch_rows, init_scale=scale)


def _alone(batch: Batch) -> _Alone:
    """The rates on one core, once the program is compiled."""
    with at_most_cores(1):
        job = SummariesJob(batch.items, batch.frame)  # type: ignore[arg-type]
        state, began = job.begin(), time.perf_counter()
        while not job.is_finished(state):
            state, _ = job.advance(state, 10**6)
        seconds = time.perf_counter() - began
    return _Alone(batch.rows / seconds, batch.rows / run_batch(batch).seconds)


def _in_each_worker(client: Client, function: Callable[[Batch], T], batch: Batch) -> list[T]:
    """A function's result in each worker, called in all of them at once."""
    options = {"pure": False, "allow_other_workers": False}
    workers = client.nthreads()
    futures = [client.submit(function, batch, workers=[worker], **options) for worker in workers]
    return [future.result() for future in futures]


def _gpu_rows(batch: Batch) -> tuple[Row, ...]:
    """Batches in this process, which occupies the GPU so that no worker can."""
    sizes = GPU_SCALES, GPU_SEEDS, GPU_SCALES * GPU_SEEDS
    large = Batches(_sweep(*sizes).plan)[0]
    measured = Batches(_sweep(*sizes, keep=("final_loss", "drop_time", "drops")).plan)[0]
    kinds = ((batch, ""), (large, ""), (measured, ", without predicted drop times"))
    rows = []
    for own, which in kinds:
        run_batch(own)  # compiles it
        rows.append(_kernel_row(own, _alone(own), which=which))
    return tuple(rows)


def _kernel_row(
    batch: Batch, alone: _Alone, least_share: float | None = None, which: str = ""
) -> Row:
    return Row(
        what=f"one batch of {batch.rows:,} rows, from settings to columns{which}",
        ours=batch.rows / alone.whole,
        baseline=batch.rows / alone.compiled,
        against="its compiled program",
        ratio_above=least_share,
        note=f"{alone.whole:,.0f} points/s on one {jax.devices()[0].device_kind}",
    )


def _engine_rate(sweep: ss.Sweep, client: Client, store: Path) -> float:
    """Points per second of a sweep, from the plan to the labelled array."""
    began = time.perf_counter()
    sweep.run(store, cluster=client, observers=[])
    return sweep.plan.rows / (time.perf_counter() - began)


@dataclass(frozen=True)
class _ClientCosts:
    """The work of the one process that hands out and writes batches."""

    planning: float
    """Seconds per point."""
    batch: float
    """Seconds to make a batch and to write its results."""
    bytes: float
    """Bytes on disk per point."""
    tasks: float
    """Empty tasks per second that one scheduler handles."""


def _client_costs(sweep: ss.Sweep, client: Client, store: Path) -> _ClientCosts:
    planned = repeat(lambda: Batches(sweep.plan), 5).best
    size = sum((store / name).stat().st_size for name in files_in(store))
    with working_store(store, sweep.plan) as kept:
        made = time.perf_counter()
        batch = kept.batch(0)
        made = time.perf_counter() - made
        result = client.submit(run_batch, batch, pure=False).result()
        written = time.perf_counter()
        kept.write(result)
        written = time.perf_counter() - written
    began = time.perf_counter()
    client.gather(client.map(abs, range(EMPTY), pure=False))
    tasks = EMPTY / (time.perf_counter() - began)
    return _ClientCosts(planned / sweep.plan.rows, made + written, size / sweep.plan.rows, tasks)


def _on_paper(batches: Batches, rate: float, costs: _ClientCosts) -> Row:
    """Extrapolate to a fleet of workers behind one client and one scheduler."""
    count = POINTS * len(batches) / batches.rows
    computing, writing = POINTS / (FLEET * rate), count * costs.batch
    planning = POINTS * costs.planning
    load = count / max(computing, writing)
    return Row(
        what=f"{POINTS:.0e} points on {FLEET} workers, on paper",
        ours=planning + max(computing, writing),
        baseline=None,
        against="none",
        note=(
            f"{planning:.0f} s to plan, then {computing:.0f} s of computing in {count:.0f} "
            f"batches, {load:.1f} a second for a scheduler that takes {costs.tasks:.0f}; the "
            f"client is at it for {writing:.0f} s; {1e-9 * POINTS * costs.bytes:.2f} GB on disk"
        ),
    )
