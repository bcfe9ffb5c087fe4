"""`saddlescope sweep`: many settings, a store, and pictures of it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from saddlescope.checks import whole_number
from saddlescope.cli import options
from saddlescope.errors import InvalidInput
from saddlescope.running import AbstractObserver, ProgressBar, Snapshot
from saddlescope.running.observers import AbstractJob, Result, State
from saddlescope.setting.fields import as_number

if TYPE_CHECKING:
    import xarray as xr
    from typer._click.core import Context

EXAMPLE = """Run many settings, on this machine or on a cluster, into one labelled array.

\b
Examples:
  saddlescope sweep plan.toml --out runs/scales              run it, or resume it
  saddlescope sweep plan.toml --dry-run                      points, time and size
  saddlescope sweep plan.toml --out runs/scales --extend     add the new values of its axes
  saddlescope sweep plan.toml --out runs/scales --cluster tcp://host:8786
  saddlescope sweep plot runs/scales --x init_scale --y rank --color drops
  saddlescope sweep page runs/scales                         a page with the axes as sliders

A plan is a TOML file with a [base], [axes] over its fields, and what to keep; docs/sweeps.md and
examples/sweeps have some. After an interruption or a crash the same command resumes. More than one
process needs the extra `cluster`: pip install 'saddlescope[cluster]'.
"""
RUN = """Run a plan, or resume it.

\b
Examples:
  saddlescope sweep plan.toml --out runs/scales
  saddlescope sweep plan.toml --out runs/scales --workers 4
  saddlescope sweep plan.toml --out runs/scales --cluster tcp://host:8786
  saddlescope sweep plan.toml --out runs/scales --retry-failed

The exit code is 1 if any point failed or diverged; the array's `reason` says why.
"""
PLOT = """Plot a store: a heat map over two axes, or lines over one.

\b
Examples:
  saddlescope sweep plot STORE --x init_scale --y rank --color drops
  saddlescope sweep plot STORE --x init_scale --y final_loss --color heads
  saddlescope sweep plot STORE --x init_scale --y drop_time --at drop=1 --out drops.pdf

Heat maps show the mean over seeds; lines show the median, with a band from the 10th to the 90th
percentile. Axes that are not named become small multiples, unless --at fixes them.
"""
PAGE = """Write a store as one offline HTML page, with its axes as sliders.

\b
Example:
  saddlescope sweep page STORE --out sweep.html
"""


class PlanOrVerb(TyperGroup):
    """A group in which any word that is not a verb is a plan to run."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


Store = Annotated[Path, typer.Argument(help="The store of a sweep.")]


def run(
    plan: Annotated[Path, typer.Argument(help="The plan, as TOML.")],
    out: Annotated[
        Path | None, typer.Option(help="The store; by default runs/NAME, for NAME.toml.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check the plan and estimate its cost.")
    ] = False,
    extend: Annotated[
        bool, typer.Option("--extend", help="Add points for new values of axes.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Rerun points that failed or diverged.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler: tcp://host:8786.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="N", help="Worker processes; by default one a core. 0: this process."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.sweep import Sweep
    from saddlescope.sweep.pools import check_workers

    count = None if workers is None else _count(workers)
    check_workers(cluster, count)
    sweep = Sweep.load(plan)
    if dry_run:
        estimate = sweep.estimate()
        typer.echo(json.dumps(vars(estimate), indent=2) if as_json else str(estimate))
        return
    store = out or Path("runs") / plan.stem
    array = sweep.run(
        store,
        workers=count,
        cluster=cluster,
        extend=extend,
        retry_failed=retry_failed,
        observers=[ProgressBar("sweep"), _Address()],
    )
    failed = _report(array, store, as_json)
    if failed:
        raise typer.Exit(1)


def _count(text: str) -> int:
    value = as_number(text)
    return whole_number("workers", text if value is None else value, at_least=0)


def plot(
    store: Store,
    x: Annotated[str, typer.Option(help="The axis to plot along x.")],
    y: Annotated[str, typer.Option(help="An axis, for a heat map; a kept quantity, for lines.")],
    color: Annotated[
        str | None, typer.Option(help="The quantity of a heat map; the axis of coloured lines.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="AXIS=VALUE: fix an axis (repeatable).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .pdf or .svg file; STORE.png by default.")
    ] = None,
) -> None:
    from saddlescope.running.files import make_folder, replacing
    from saddlescope.sweep import Sweep
    from saddlescope.sweep.picture import draw

    target = out or store.with_name(f"{store.name}.png")
    if target.suffix not in (".png", ".pdf", ".svg"):
        raise InvalidInput("out", str(target), "must end in .png, .pdf or .svg")
    drawing = draw(Sweep.open(store), x=x, y=y, color=color, at=_pairs(at or []))
    make_folder(target.parent)
    with replacing(target) as path:
        drawing.savefig(path, dpi=160, format=target.suffix[1:])
    typer.echo(f"wrote {target}")


def page(
    store: Store,
    out: Annotated[Path | None, typer.Option(help="The page; STORE.html by default.")] = None,
) -> None:
    from saddlescope.sweep import Sweep
    from saddlescope.sweep.page import write_sweep_page

    target = out or store.with_name(f"{store.name}.html")
    typer.echo(f"wrote {write_sweep_page(Sweep.open(store), target)}")


class _Address(AbstractObserver):
    """Prints the address of Dask's dashboard on a terminal."""

    def begin(self, job: AbstractJob[State, Result]) -> None:
        from saddlescope.sweep._job import SweepJob

        if isinstance(job, SweepJob) and job.address and sys.stderr.isatty():
            typer.echo(_dashboard(job.address), err=True)

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        """Nothing changes."""


def _dashboard(address: str) -> str:
    """The address of Dask's dashboard, and what it needs."""
    has_bokeh = importlib.util.find_spec("bokeh") is not None
    need = "" if has_bokeh else " (where the scheduler runs it needs bokeh: pip install bokeh)"
    return f"Dask's dashboard: {address}{need}"


def _report(array: xr.Dataset, store: Path, as_json: bool) -> int:
    """Print a summary; return how many points failed or diverged."""
    from saddlescope.sweep.subjects import Status

    status, reasons = array["status"].to_numpy(), array["reason"].to_numpy()
    counts = {one.name.lower(): int((status == one).sum()) for one in Status}
    failed = counts["diverged"] + counts["failed"]
    said = sorted({str(text) for text in reasons[status >= Status.DIVERGED].tolist() if text})
    if as_json:
        values = {"store": str(store), "sizes": dict(array.sizes), "status": counts}
        typer.echo(json.dumps({**values, "reasons": said}, indent=2))
        return failed
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    typer.echo(f"{status.size} points: {listed}")
    for text in said[:5]:
        typer.echo(f"  {text}")
    if len(said) > 5:
        typer.echo(f"  … and {len(said) - 5} other reasons")
    typer.echo(f"wrote {store}")
    return failed


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput("at", word, "must be AXIS=VALUE")
        pairs[name] = value
    return pairs
