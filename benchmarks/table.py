"""Results of benchmarks: rows with targets, fitted exponents, tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One measurement, with a target on the ratio, on our seconds, or none."""

    what: str
    ours: float | None
    """Seconds, None where it could not be measured."""
    baseline: float | None
    against: str
    """What the baseline is."""
    ratio_above: float | None = None
    seconds_below: float | None = None
    note: str = ""
    holds: bool = True
    """A condition besides speed, named in `note`."""

    @property
    def ratio(self) -> float | None:
        """How many times faster than the baseline."""
        return self.baseline / self.ours if self.ours and self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the target was met, None where there is none or nothing was measured."""
        if self.ours is None or (self.ratio_above is None and self.seconds_below is None):
            return None
        ratio_met = self.ratio_above is None or (self.ratio or 0.0) >= self.ratio_above
        seconds_met = self.seconds_below is None or self.ours < self.seconds_below
        return ratio_met and seconds_met and self.holds

    @property
    def target(self) -> str:
        """The target in words."""
        parts = []
        if self.ratio_above is not None:
            parts.append(f"≥ {_times(self.ratio_above)}")
        if self.seconds_below is not None:
            parts.append(f"< {duration(self.seconds_below)}")
        return ", ".join(parts) or "—"

    @property
    def times_faster(self) -> str:
        """The ratio in words."""
        return "—" if self.ratio is None else _times(self.ratio)

    @property
    def reached(self) -> str:
        """The measured value to compare with the target, in words."""
        if self.ratio_above is None or self.ratio is None:
            return duration(self.ours)
        return f"{_times(self.ratio)} against {self.against}"

    def to_dict(self) -> dict[str, object]:
        """The row as plain values, for JSON."""
        return {
            "what": self.what,
            "ours_seconds": self.ours,
            "baseline_seconds": self.baseline,
            "baseline": self.against,
            "ratio": self.ratio,
            "ratio_above": self.ratio_above,
            "seconds_below": self.seconds_below,
            "met": self.met,
            "note": self.note,
            "holds": self.holds,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Row:
        """The row that `to_dict` gave these values."""
        return cls(
            what=values["what"],
            ours=values["ours_seconds"],
            baseline=values["baseline_seconds"],
            against=values["baseline"],
            ratio_above=values["ratio_above"],
            seconds_below=values["seconds_below"],
            note=values["note"],
            holds=values["holds"],
        )


@dataclass(frozen=True)
class Scaling:
    """Seconds against a size, the exponent fitted to them and the one expected."""

    what: str
    axis: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    fitted_from: int
    """The smallest size in the fit; below it fixed costs dominate."""
    exponent: float
    prefactor: float
    expected: float
    why: str

    def to_dict(self) -> dict[str, object]:
        """The scaling as plain values, for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Score:
    """How well drops are found in noise."""

    noise: str
    ratio: float
    """The smallest drop over the standard deviation of the noise."""
    precision: float
    """The share of found drops that are real."""
    recall: float
    """The share of real drops that were found."""

    def to_dict(self) -> dict[str, object]:
        """The score as plain values, for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Findings:
    """All that one benchmark found."""

    title: str
    rows: tuple[Row, ...] = ()
    scalings: tuple[Scaling, ...] = ()
    scores: tuple[Score, ...] = ()


def duration(seconds: float | None) -> str:
    """Seconds in a unit that suits them."""
    if seconds is None:
        return "—"
    if seconds >= 1e3:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def show(console: Console, findings: Findings) -> None:
    """Print a benchmark's tables."""
    if findings.rows:
        console.print(_comparisons(findings))
    if findings.scalings:
        console.print(_exponents(findings))
    if findings.scores:
        console.print(_scores(findings))
    for row in findings.rows:
        if row.note:
            console.print(f"  [dim]{row.what}: {row.note}[/dim]")
    console.print()


def _comparisons(findings: Findings) -> Table:
    table = Table(title=findings.title, title_justify="left", title_style="bold")
    for name in ("what", "ours", "baseline", "against", "times faster", "target", ""):
        numeric = name in ("ours", "baseline", "times faster", "target")
        table.add_column(name, justify="right" if numeric else "left")
    verdicts = {True: "[green]met[/green]", False: "[red]MISSED[/red]", None: ""}
    for row in findings.rows:
        verdict = "[yellow]skipped[/yellow]" if row.ours is None else verdicts[row.met]
        table.add_row(
            row.what,
            duration(row.ours),
            duration(row.baseline),
            row.against,
            row.times_faster,
            row.target,
            verdict,
        )
    return table


def _exponents(findings: Findings) -> Table:
    table = Table(title=findings.title, title_justify="left", title_style="bold")
    for name in ("cost of", "against", "first", "last", "exponent", "expected", "why"):
        numeric = name in ("first", "last", "exponent", "expected")
        table.add_column(name, justify="right" if numeric else "left")
    for scaling in findings.scalings:
        table.add_row(
            scaling.what,
            f"{scaling.axis} = {scaling.sizes[0]:,} … {scaling.sizes[-1]:,}",
            duration(scaling.seconds[0]),
            duration(scaling.seconds[-1]),
            f"{scaling.exponent:.2f} (from {scaling.fitted_from:,})",
            f"{scaling.expected:g}",
            scaling.why,
        )
    return table


def _scores(findings: Findings) -> Table:
    table = Table(title=findings.title, title_justify="left", title_style="bold")
    for name in ("noise", "signal to noise", "precision", "recall"):
        table.add_column(name, justify="left" if name == "noise" else "right")
    for score in findings.scores:
        shares = f"{score.precision:.3f}", f"{score.recall:.3f}"
        table.add_row(score.noise, f"{score.ratio:g}", *shares)
    return table


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.2f}×"
