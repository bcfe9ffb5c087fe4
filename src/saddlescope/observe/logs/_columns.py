"""Which columns of a table are the loss, the step and the run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from saddlescope.errors import InvalidInput

_LOSSES = ("loss", "train_loss", "train/loss", "training_loss", "loss/train", "train_loss_step")
_STEPS = (
    *("step", "global_step", "_step", "trainer/global_step", "train/global_step"),
    *("iteration", "iter", "iter_num", "batch", "update", "epoch", "time", "tokens"),
)
_RUNS = ("run", "run_id", "run_name", "seed", "experiment", "trial", "name")
# Words in the name of a loss that is not the training loss.
_OTHER = re.compile(r"val|eval|test|dev|__min$|__max$", re.I)
# Weights & Biases exports several runs as columns `NAME - METRIC`.
_EXPORTED = re.compile(r"(?P<run>.+) - (?P<metric>[^-]+)")


@dataclass(frozen=True)
class Row:
    """A row of a log: its number in the file, its run, its step (None if not given), its loss."""

    number: int
    run: str
    step: float | None
    loss: float


@dataclass(frozen=True)
class Columns:
    """The columns that are read; `losses` has one for each run that has a column of its own."""

    losses: dict[str, str]
    step: str | None
    run: str | None

    @property
    def note(self) -> str:
        """Which column was read as what."""
        loss = ", ".join(map(repr, self.losses.values()))
        step = "steps are counted by rows" if self.step is None else f"step is {self.step!r}"
        return f"loss is {loss}, {step}" + (f", run is {self.run!r}" if self.run else "")

    def rows(self, number: int, cells: dict[str, object]) -> Iterable[Row]:
        """The rows that a line of the table gives; a missing cell gives none."""
        step = None if self.step is None else number_in(cells.get(self.step))
        for name, column in self.losses.items():
            if column in cells and (len(self.losses) == 1 or cells[column] not in ("", None)):
                run = name if self.run is None else str(cells.get(self.run, ""))
                is_lost = self.step is not None and step is None
                loss = math.nan if is_lost else number_in(cells[column])
                yield Row(number, run, step, math.nan if loss is None else loss)


def choose(
    names: Sequence[str],
    loss: str | None = None,
    step: str | None = None,
    run: str | None = None,
) -> Columns:
    """The columns asked for, or those recognised by their names."""
    for field, wanted in (("column", loss), ("step_column", step), ("run_column", run)):
        if wanted is not None and wanted not in names:
            raise InvalidInput(field, wanted, f"must be one of {_listed(names)}")
    losses = {"": loss} if loss is not None else _losses(names)
    if not losses:
        allowed = f"must name the column of the loss, one of {_listed(names)}"
        raise InvalidInput("column", None, allowed)
    for field, wanted in (("step_column", step), ("run_column", run)):
        if wanted is not None and wanted in losses.values():
            raise InvalidInput(field, wanted, "is the column of the loss")
    others = [name for name in names if name not in losses.values()]
    return Columns(losses, step or _first(others, _STEPS), run or _first(others, _RUNS))


def _losses(names: Sequence[str]) -> dict[str, str]:
    if (known := _first(names, _LOSSES)) is not None:
        return {"": known}
    exported = {
        match["run"]: name
        for name in names
        if (match := _EXPORTED.fullmatch(name)) and _is_loss(match["metric"])
    }
    if exported:
        return exported
    other = next((name for name in names if _is_loss(name)), None)
    return {} if other is None else {"": other}


def _is_loss(name: str) -> bool:
    return "loss" in name.lower() and not _OTHER.search(name)


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[one] for one in wanted if one in by_name), None)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (", …" if len(names) > 12 else "")


def number_in(value: object) -> float | None:
    """The number in a cell, or None; NaN stays NaN."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
