"""`Sweep`: many settings, one labelled array."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import listed
from saddlescope.running import ProgressBar
from saddlescope.running.files import as_path
from saddlescope.running.loop import run_job
from saddlescope.sweep._job import SweepJob
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.plan import Plan, load_plan
from saddlescope.sweep.pools import check_workers, pool_of
from saddlescope.sweep.store import open_store, working_store
from saddlescope.tables import counted

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Estimate:
    """What a sweep will take.

    - `dimensions`: the lengths of the axes.
    - `points`: the number of rows, each being one seed of one point.
    - `batches`: the number of compiled calls.
    - `seconds`: of one core, roughly, compiling aside.
    - `bytes`: of the store's data, before compression.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> base = ss.Setting(model, task, method)
    >>> ss.Sweep(base, init_scale=[.1, .2], keep=["final_loss"]).estimate().points
    2
    """

    dimensions: dict[str, int]
    points: int
    batches: int
    seconds: float
    bytes: int

    def __str__(self) -> str:
        sizes = " × ".join(f"{size} {name}" for name, size in self.dimensions.items())
        return (
            f"{counted(self.points, 'point')} ({sizes}) in {self.batches} "
            f"{'batch' if self.batches == 1 else 'batches'}; {_duration(self.seconds)} of one "
            f"core, compiling aside; up to {_size(self.bytes)} of data"
        )


class Sweep:
    """Runs many settings, or transformer experiments, and returns one labelled array of results.

    - `base`: a `Setting` or an experiment.
    - `keep`: what to keep of every point and seed: names, or your own functions of a point's
      `Trajectory` (of its dataset, for an experiment) that return one number per seed.
    - `draws`, `draw_seed`: how many random points to draw, and the seed to draw them from.
    - `modules`: Python files that define your own tasks, models and measures; workers load them.
    - `batch_rows`: how many rows (seeds of points) run together, by default about two seconds of
      work for one core. A GPU wants many: thousands, or a quarter of a million of small flows.
    - `axes`: fields of the base by name, each with its values: a list or a range (`linear_range`,
      `log_range`), which is a dimension of its own, or values that share the dimension `point`
      (`zipped`, `uniform`, `log_uniform`, `integers`). `seeds` are the seeds of every point.

    Axes and names are checked at once, and every point by `estimate` and `run`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> base = ss.Setting(ss.MergedAttention(2), task, ss.GradientFlow(until=100), seeds=2)
    >>> sweep = ss.Sweep(base, init_scale=ss.log_range(.1, 1, 3), keep=["final_loss"])
    >>> array = sweep.run(workers=0)
    >>> array["final_loss"].dims, array["init_scale"].to_numpy()
    (('init_scale', 'seed'), array([0.1       , 0.31622777, 1.        ]))
    """

    def __init__(
        self,
        base: object,
        *,
        keep: Sequence[str | Callable[..., object]] = (),
        draws: int | None = None,
        draw_seed: int = 0,
        modules: Sequence[str | Path] = (),
        batch_rows: int | None = None,
        **axes: object,
    ) -> None:
        paths = tuple(str(path) for path in listed("modules", modules, "must be a list of files"))
        self.plan = Plan(base, axes, keep, draws, draw_seed, paths, batch_rows)

    @classmethod
    def load(cls, path: str | Path) -> Sweep:
        """Read a plan from a TOML file."""
        sweep = cls.__new__(cls)
        sweep.plan = load_plan(as_path("plan", path))
        return sweep

    @staticmethod
    def open(store: str | Path) -> xr.Dataset:
        """The labelled array of a store over its plan's axes; NaN where a point is missing."""
        return open_store(as_path("store", store))

    def estimate(self) -> Estimate:
        """Check every point and estimate what the sweep will take."""
        batches = Batches(self.plan)
        numbers = 2 + sum(int(np.prod(one.sizes, dtype=int)) for one in batches.columns)
        return Estimate(
            self.plan.dimensions,
            batches.rows,
            len(batches),
            batches.seconds,
            8 * numbers * batches.rows,
        )

    def run(
        self,
        store: str | Path | None = None,
        *,
        workers: int | None = None,
        cluster: object = None,
        extend: bool = False,
        retry_failed: bool = False,
        observers: object = None,
    ) -> xr.Dataset:
        """Run the sweep, or resume it, and return the labelled array.

        - `store`: the folder of the results. After an interruption or a crash the same call resumes
          from it. Without a store nothing is kept.
        - `workers`: the number of worker processes, by default one per core; 0 runs everything in
          this process. A script that starts workers needs `if __name__ == "__main__":`.
        - `cluster`: a Dask `Client`, or the address of a scheduler, instead of local workers.
        - `extend`: add the points for new values of axes to an existing store.
        - `retry_failed`: rerun points that failed or diverged.
        - `observers`: called after every round of batches, as in `train`; by default a progress
          bar.
        """
        check_workers(cluster, workers)
        with ExitStack() as stack:
            if store is None:
                store = stack.enter_context(tempfile.TemporaryDirectory())
            kept = stack.enter_context(
                working_store(
                    as_path("store", store), self.plan, extend=extend, retry_failed=retry_failed
                )
            )
            if kept.done.all():
                return kept.dataset()
            pool = stack.enter_context(pool_of(cluster, workers, self.plan.modules))
            shown = [ProgressBar("sweep")] if observers is None else observers
            return run_job(SweepJob(kept, pool), shown)

    def __repr__(self) -> str:
        return repr(self.plan).replace("Plan(", "Sweep(", 1)


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {seconds:.2g} s" if seconds >= 1 else "less than 1 s"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{max(count / 1e3, 0.1):.3g} kB"
