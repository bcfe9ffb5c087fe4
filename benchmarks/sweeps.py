"""Sweeps: the rate of the engine against that of the compiled batch, and of two workers."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import jax

import saddlescope as ss
from benchmarks.settings import CONTEXT_LENGTH
from benchmarks.table import Findings, Row
from saddlescope.dynamics._many import SummariesJob
from saddlescope.running.cores import at_most_cores
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.kernel import Batch, run_batch
from saddlescope.sweep.pools import Workers, pool_of
from saddlescope.sweep.store import working_store

TITLE = "Sweeps (flow to t = 20 000, D = 4, H = 5)"
LEAST_SHARE, TWO_WORKERS = 0.8, 1.7
# What a paper estimate is for.
POINTS, FLEET = 10**7, 100


def measure(quick: bool) -> Findings:
    """Drop times over the scale of the start, by gradient flow."""
    sweep = _sweep(16 if quick else 64)
    batches = Batches(sweep.plan)
    batch = batches[len(batches) // 2]
    raw = _raw_rate(batch)
    rows = [_kernel(batch, raw)]
    rates = {}
    if jax.default_backend() != "cpu":
        # This process holds the GPU: none is left for a worker.
        return Findings(TITLE, rows=tuple(rows))
    for workers in (1, 2):
        rates[workers], seconds_to_write = _engine_rate(sweep, workers)
        rows.append(
            Row(
                what=f"{batches.rows} points, {workers} worker{'s' * (workers > 1)}, once compiled",
                ours=batches.rows / rates[workers],
                baseline=batches.rows / (raw * workers),
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
    rows.append(_on_paper(batches, rates[1], seconds_to_write))
    return Findings(TITLE, rows=tuple(rows))


def _sweep(scales: int) -> ss.Sweep:
    task = ss.InContextRegression("power:4:1", CONTEXT_LENGTH)
    flow = ss.GradientFlow(until=20_000)
    base = ss.Setting(ss.SeparateAttention(heads=5), task, flow, seeds=16)
    return ss.Sweep(base, init_scale=ss.log_range(0.003, 0.1, scales))


def _raw_rate(batch: Batch) -> float:
    """Rows a second of one core in the compiled program alone, without what surrounds it."""
    with at_most_cores(1):
        job = SummariesJob(batch.items, batch.frame)  # type: ignore[arg-type]
        for _ in range(2):
            state, began = job.begin(), time.perf_counter()
            while not job.is_finished(state):
                state, _ = job.advance(state, 10**6)
            seconds = time.perf_counter() - began
    return batch.rows / seconds


def _kernel(batch: Batch, raw: float) -> Row:
    run_batch(batch)
    seconds = min(run_batch(batch).seconds for _ in range(3))
    return Row(
        what=f"one batch of {batch.rows} rows, from settings to columns",
        ours=seconds,
        baseline=batch.rows / raw,
        against="its compiled program",
        ratio_above=LEAST_SHARE,
        note=f"{batch.rows / seconds:.0f} points/s on one {jax.devices()[0].device_kind}",
    )


def _engine_rate(sweep: ss.Sweep, workers: int) -> tuple[float, float]:
    """Points a second of a sweep, once its workers have compiled; seconds to write a batch."""
    with pool_of(None, workers, ()) as pool, tempfile.TemporaryDirectory() as folder:
        assert isinstance(pool, Workers)
        for turn in range(2):
            began = time.perf_counter()
            sweep.run(Path(folder) / str(turn), cluster=pool.client, observers=[])
            seconds = time.perf_counter() - began
        result = run_batch(Batches(sweep.plan)[0])
        with working_store(Path(folder) / "one", sweep.plan) as store:
            before = time.perf_counter()
            store.write(result)
            written = time.perf_counter() - before
    return sweep.plan.rows / seconds, written


def _on_paper(batches: Batches, rate: float, seconds_to_write: float) -> Row:
    """A fleet of workers at the measured rate; the client writes what they compute."""
    count = POINTS * len(batches) / batches.rows
    computing, writing = POINTS / (FLEET * rate), count * seconds_to_write
    numbers = 2 + sum(column.sizes[0] if column.sizes else 1 for column in batches.columns)
    return Row(
        what=f"{POINTS:.0e} points on {FLEET} workers, on paper",
        ours=max(computing, writing),
        baseline=None,
        against="none",
        note=(
            f"{count:.0f} batches, {count / computing:.0f} a second for the scheduler; writing "
            f"them takes {writing:.0f} s; {8e-9 * numbers * POINTS:.1f} GB before compression"
        ),
    )
