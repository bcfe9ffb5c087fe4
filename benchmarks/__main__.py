"""`python -m benchmarks`: measure, print tables, and write them with a plot of the scalings.

A full run writes the record that the documentation shows: `benchmarks/recorded/cpu.json`, or with
`--gpu` `benchmarks/recorded/gpu.json`. Partial and quick runs write to `out/bench/`;
`--only NAME --out benchmarks/recorded` updates one subject of the record.
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

# The fresh processes of `startup` come first, when the machine is least busy.
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
    """Run the chosen benchmarks. A missed target is reported, but is not a failure."""
    options = _parse(arguments)
    # A log has no width of its own.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    device = "gpu" if options.gpu else "cpu"
    subjects = ON_A_GPU if options.gpu else SUBJECTS
    is_whole = not (options.only or options.quick)
    out: Path = options.out or (RECORDED if is_whole else Path("out/bench"))
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Findings] = {}
    seconds: dict[str, float] = {}
    for name in subjects:
        if options.only and name not in options.only:
            continue
        began = time.perf_counter()
        with console.status(f"{name} …"):
            findings = importlib.import_module(f"benchmarks.{name}").measure(options.quick)
        seconds[name] = time.perf_counter() - began
        results[name] = findings
        show(console, findings)
        # After each subject, so that it survives a failure of the next.
        _write(out / f"{device}.json", options, name, findings, seconds[name])
    scalings = [scaling for findings in results.values() for scaling in findings.scalings]
    if scalings:
        from benchmarks.picture import draw

        draw(scalings, out / f"{device}-scaling.png")
    _conclude(console, results, sum(seconds.values()), out)


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
    parser.add_argument("--gpu", action="store_true", help="the GPU benchmarks")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    parser.add_argument("--out", type=Path, help="the folder for results")
    return parser.parse_args(arguments)


def _write(
    path: Path, options: argparse.Namespace, name: str, findings: Findings, seconds: float
) -> None:
    """Write one subject into a record, keeping its other subjects from the same machine."""
    flags = [f"--{flag}" for flag in ("gpu", "quick") if getattr(options, flag)]
    record: dict[str, Any] = {"machine": _machine(), "subjects": {}}
    if path.exists():
        existing = json.loads(path.read_text())
        if existing["machine"] == record["machine"]:
            record = existing
    record["subjects"][name] = {
        "title": findings.title,
        "command": " ".join(["python -m benchmarks", *flags, f"--only {name}"]),
        "seconds": seconds,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "rows": [row.to_dict() for row in findings.rows],
        "scalings": [scaling.to_dict() for scaling in findings.scalings],
        "scores": [score.to_dict() for score in findings.scores],
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
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


def _conclude(console: Console, results: dict[str, Findings], seconds: float, out: Path) -> None:
    rows = [row for findings in results.values() for row in findings.rows]
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
