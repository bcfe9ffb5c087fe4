"""Running one batch of a plan, without zarr and Dask, so that a bare machine can do it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics.forecast import Frame
from saddlescope.errors import Interrupted, InvalidInput, SaddlescopeError
from saddlescope.running.cores import at_most_cores
from saddlescope.running.files import make_folder, replacing
from saddlescope.sweep.subjects import AbstractSubject, Column, Outcome, Status


@dataclass(frozen=True)
class Batch:
    """Points that run together, each with some of its seeds.

    - `number`: the index of the batch in its store.
    - `items`: settings, or experiments.
    - `counts`: the number of seeds of each.
    - `frame`: the shape that rows are padded to.
    - `seconds`: the expected time on one core.
    """

    number: int
    subject: AbstractSubject
    columns: tuple[Column, ...]
    items: tuple[object, ...]
    counts: tuple[int, ...]
    frame: Frame | None
    seconds: float

    @property
    def rows(self) -> int:
        """The number of rows: one per seed of each point."""
        return sum(self.counts)


@dataclass(frozen=True)
class BatchResult:
    """The columns of a batch, [row, …], with the status of each row and the reason for it."""

    number: int
    columns: dict[str, FloatArray]
    status: AnyArray
    reasons: tuple[str, ...]
    seconds: float


def run_batch(batch: Batch) -> BatchResult:
    """Run a batch; a point that fails is marked with the reason and does not affect the others.

    It uses one core: sharding the rows would change their last digits, and a batch must give the
    same bits whoever runs it, on one type of processor.
    """
    began = time.monotonic()
    with at_most_cores(1):
        try:
            outcomes = batch.subject.run(batch.items, batch.frame)
        except Interrupted:
            raise
        except (Exception, SystemExit):
            # Run each point alone, in the same frame, to find the one that fails.
            outcomes = [_alone(batch, index) for index in range(len(batch.items))]
    columns = {one.name: _joined(one, outcomes, batch.counts) for one in batch.columns}
    status = np.concatenate([one.status for one in outcomes]).astype(np.int8)
    reasons = [
        one.reasons.get(row, "")
        for one, count in zip(outcomes, batch.counts, strict=True)
        for row in range(count)
    ]
    return BatchResult(batch.number, columns, status, tuple(reasons), time.monotonic() - began)


def failed_batch(batch: Batch, reason: str) -> BatchResult:
    """The result of a batch that failed as a whole."""
    outcomes = [_failed(count, reason) for count in batch.counts]
    columns = {one.name: _joined(one, outcomes, batch.counts) for one in batch.columns}
    status = np.full(batch.rows, Status.FAILED, dtype=np.int8)
    return BatchResult(batch.number, columns, status, (reason,) * batch.rows, 0.0)


def _alone(batch: Batch, index: int) -> Outcome:
    try:
        return batch.subject.run([batch.items[index]], batch.frame)[0]
    except Interrupted:
        raise
    except SaddlescopeError as problem:
        return _failed(batch.counts[index], str(problem))
    except (Exception, SystemExit) as problem:
        # A measure of the user's own may call sys.exit.
        return _failed(batch.counts[index], f"{type(problem).__name__}: {problem}")


def _failed(count: int, reason: str) -> Outcome:
    line = " ".join(reason.split())
    status = np.full(count, Status.FAILED, dtype=np.int8)
    return Outcome({}, status, dict.fromkeys(range(count), line))


def _joined(column: Column, outcomes: Sequence[Outcome], counts: Sequence[int]) -> FloatArray:
    """One column over all rows; the values of smaller points are filled up with NaN."""
    whole = np.full((sum(counts), *column.sizes), np.nan)
    first = 0
    for outcome, count in zip(outcomes, counts, strict=True):
        values = outcome.columns.get(column.name)
        if values is not None:
            kept = values[tuple(slice(size) for size in (count, *column.sizes))]
            whole[(slice(first, first + count), *map(slice, kept.shape[1:]))] = kept
        first += count
    return whole


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m saddlescope.sweep.kernel PLAN`: run batches of a plan and write .npz files."""
    parser = argparse.ArgumentParser(prog="python -m saddlescope.sweep.kernel", description=__doc__)
    parser.add_argument("plan", type=Path, help="a plan, as TOML")
    parser.add_argument(
        "--batch", type=int, action="append", help="the batch to run (repeatable); by default all"
    )
    parser.add_argument("--out", type=Path, default=Path("."), help="the folder for the files")
    options = parser.parse_args(arguments)
    try:
        _run_batches(options.plan, options.batch, options.out)
    except SaddlescopeError as problem:
        print(f"saddlescope: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, InvalidInput) else 1)


def _run_batches(plan: Path, numbers: list[int] | None, folder: Path) -> None:
    from saddlescope.sweep.batches import Batches
    from saddlescope.sweep.plan import load_plan

    batches = Batches(load_plan(plan))
    for number in range(len(batches)) if numbers is None else numbers:
        if not 0 <= number < len(batches):
            raise InvalidInput("batch", number, f"must be from 0 to {len(batches) - 1}")
        result = run_batch(batches[number])
        make_folder(folder)
        target = folder / f"batch-{number:06d}.npz"
        points, seeds = batches.labels(number)
        with replacing(target) as path, path.open("wb") as file:
            kept = {**result.columns, "status": result.status, "point": points, "seed": seeds}
            np.savez(file, reason=np.array(result.reasons), **kept)  # type: ignore[arg-type]
        print(f"{target}: {len(points)} rows in {result.seconds:.1f} s")


if __name__ == "__main__":
    main()
