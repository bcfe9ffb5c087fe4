"""`python -m benchmarks.page`: write docs/speed.md and README's table from the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.table import Row, Scaling, duration

RECORDED = Path(__file__).parent / "recorded"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
README = Path(__file__).parents[1] / "README.md"

_HEAD = """\
# Speed

Every number was measured beside its baseline in the same run; what matters is their ratio. Targets
that were missed are marked. `python -m benchmarks.page` writes this page from
`benchmarks/recorded/`.
"""

# The baselines that README shows: the authors' code, a plain loop, and the usual tools.
_PEERS = (
    "PyTorch, full attention",
    "SVD of the dense product",
    "SciPy LSODA, seed by seed",
    "plain vmap",
    "plain vmap of diffrax",
    "a CUDA kernel written by hand",
)
_MARKS = "<!-- measured -->\n", "<!-- end of measured -->"


def page(records: dict[str, dict[str, Any]]) -> str:
    """The page of all records, given by device."""
    parts = [_HEAD]
    for name in ("cpu", "gpu"):
        if name in records:
            parts += _record(name, records[name])
    return "\n".join(parts)


def with_measured(text: str, records: dict[str, dict[str, Any]]) -> str:
    """The text with the table of comparisons between the marks."""
    begin, end = _MARKS
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    rows = [
        (row.what, _machine(name, record), *_comparison(row))
        for name, record in records.items()
        for subject in record["subjects"].values()
        for row in map(Row.from_dict, subject["rows"])
        if row.against in _PEERS and "float32" not in row.what
    ]
    head = ("what", "on", "ours", "baseline", "against", "times faster")
    return "\n".join([before + begin, *_table(head, rows), end + after])


def recorded() -> dict[str, dict[str, Any]]:
    """The recorded results, by device."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))}


def _record(name: str, record: dict[str, Any]) -> list[str]:
    machine = record["machine"]
    kind = "a CPU" if name == "cpu" else "a GPU"
    lines = [
        f"## On {kind}\n",
        f"{_machine(name, record)}, {machine['cores']} cores, Python {machine['python']}, "
        f"JAX {machine['jax']}.\n",
    ]
    for subject in record["subjects"].values():
        lines += [f"### {subject['title']}\n", f"`{subject['command']}`\n", *_tables(subject)]
    return lines


def _comparison(row: Row) -> tuple[str, ...]:
    return duration(row.ours), duration(row.baseline), row.against, row.times_faster


def _machine(name: str, record: dict[str, Any]) -> str:
    machine: dict[str, str] = record["machine"]
    return machine["processor" if name == "cpu" else "device"]


def _tables(subject: dict[str, Any]) -> list[str]:
    lines = []
    if subject["rows"]:
        rows = [_cells(Row.from_dict(row)) for row in subject["rows"]]
        lines += _table(("what", "ours", "baseline", "against", "times faster", "target"), rows)
        notes = {row["what"]: row["note"] for row in subject["rows"] if row["note"]}
        lines += [f"- {what}: {note}." for what, note in notes.items()]
        lines += [""] if notes else []
    if subject["scalings"]:
        scalings = [_exponent(Scaling(**scaling)) for scaling in subject["scalings"]]
        lines += _table(("cost of", "against", "first", "last", "exponent", "expected"), scalings)
    if subject["scores"]:
        scores = [
            (
                score["noise"],
                f"{score['ratio']:g}",
                f"{score['precision']:.3f}",
                f"{score['recall']:.3f}",
            )
            for score in subject["scores"]
        ]
        lines += _table(("noise", "signal to noise", "precision", "recall"), scores)
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "met", False: "**missed**", None: ""}[row.met]
    target = row.target if row.met is None else f"{row.target} ({verdict})"
    baseline = duration(row.baseline)
    against = row.against if row.baseline is not None else "—"
    return row.what, duration(row.ours), baseline, against, row.times_faster, target


def _exponent(scaling: Scaling) -> tuple[str, ...]:
    sizes = f"{scaling.axis} = {scaling.sizes[0]:,} … {scaling.sizes[-1]:,}"
    return (
        scaling.what,
        sizes,
        duration(scaling.seconds[0]),
        duration(scaling.seconds[-1]),
        f"{scaling.exponent:.2f} (from {scaling.fitted_from:,})",
        f"{scaling.expected:g}: {scaling.why}",
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


if __name__ == "__main__":
    PAGE.write_text(page(recorded()))
    README.write_text(with_measured(README.read_text(), recorded()))
