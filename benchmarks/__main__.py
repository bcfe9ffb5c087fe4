"""`python -m benchmarks`: measure, print tables, and write them with a picture of the scalings.

A whole run is the record that the documentation shows: `benchmarks/recorded/cpu.json`, and with
`--gpu` `benchmarks/recorded/gpu.json`. Part of it, or a quick look, goes to `out/bench/`;
`--only NAME --out benchmarks/recorded` measures one subject of the record anew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from benchmarks.table import Findings, show

# In this order: what the rest of the machine does to a fresh process is least at the beginning.
SUBJECTS = (
    "startup",
    "figure3",
    "reproduction",
    "step",
    "flow",
    "ensembles",
    "sweeps",
    "predictions",
    "lab",
    "models",
    "circuits",
    "observe",
    "stages",
    "scaling",
)
ON_A_GPU = ("gpu", "scaling", "sweeps")
RECORDED = Path(__file__).parent / "recorded"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks that were asked for. A missed target is told, and is no failure."""
    options = _parse(arguments)
    # Tables keep their shape in a log, where nobody tells how wide it is.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    device = "gpu" if options.gpu else "cpu"
    subjects = ON_A_GPU if options.gpu else SUBJECTS
    is_whole = not (options.only or options.quick)
    out: Path = options.out or (RECORDED if is_whole else Path("out/bench"))
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Findings] = {}
    seconds: dict[str, float] = {}
    for name in subjects:
        if options.only and name not in options.only:
            continue
        began = time.perf_counter()
        with console.status(f"{name} …"):
            found[name] = importlib.import_module(f"benchmarks.{name}").measure(options.quick)
        seconds[name] = time.perf_counter() - began
        show(console, found[name])
        # After each: what was measured stays when the next one fails.
        _write(out / f"{device}.json", options, name, found[name], seconds[name])
    scalings = [scaling for findings in found.values() for scaling in findings.scalings]
    if scalings:
        from benchmarks.picture import draw

        draw(scalings, out / f"{device}-scaling.png")
    _conclude(console, found, sum(seconds.values()), out)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted({*SUBJECTS, *ON_A_GPU}),
        metavar="NAME",
        help=f"one subject (may be repeated): {', '.join(SUBJECTS)}; "
        f"with --gpu {', '.join(ON_A_GPU)}",
    )
    parser.add_argument("--gpu", action="store_true", help="what is measured on a GPU")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats, for a look")
    parser.add_argument("--out", type=Path, help="where results go")
    return parser.parse_args(arguments)


def _write(
    path: Path, options: argparse.Namespace, name: str, findings: Findings, seconds: float
) -> None:
    """Put one subject into a record; those of the same machine that it holds already stay."""
    flags = [f"--{flag}" for flag in ("gpu", "quick") if getattr(options, flag)]
    results: dict[str, Any] = {"machine": _machine(), "subjects": {}}
    if path.exists():
        held = json.loads(path.read_text())
        if held["machine"] == results["machine"]:
            results = held
    results["subjects"][name] = {
        "title": findings.title,
        "command": " ".join(["python -m benchmarks", *flags, f"--only {name}"]),
        "seconds": seconds,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "rows": [row.to_dict() for row in findings.rows],
        "scalings": [scaling.to_dict() for scaling in findings.scalings],
        "scores": [score.to_dict() for score in findings.scores],
    }
    text = json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n")


def _machine() -> dict[str, Any]:
    packages = ("jax", "jaxlib", "numpy", "scipy", "numba", "torch")
    return {
        "processor": _processor(),
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages if find_spec(name)},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _conclude(console: Console, found: dict[str, Findings], seconds: float, out: Path) -> None:
    rows = [row for findings in found.values() for row in findings.rows]
    judged = [row for row in rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    if missed:
        console.print(f"[bold red]{len(missed)} of {len(judged)} targets missed:[/bold red]")
        for row in missed:
            console.print(f"  {row.what}: {row.reached}, target {row.target}")
    elif judged:
        console.print(f"[bold green]All {len(judged)} targets met.[/bold green]")
    for row in rows:
        if row.ours is None:
            console.print(f"[yellow]Skipped: {row.what} ({row.note})[/yellow]")
    console.print(f"{seconds:.0f} s; written to {out}/")


if __name__ == "__main__":
    main()
