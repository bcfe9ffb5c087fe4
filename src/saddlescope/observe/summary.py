"""A short summary of an observed run: stages, and the heads that changed most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import xarray as xr

from saddlescope.errors import InvalidInput
from saddlescope.measure import Stages, stages
from saddlescope.tables import counted, text_table

_FOLLOWED = ("qk_effective_rank", "ov_effective_rank")
_MOST = 8


@dataclass(frozen=True)
class Change:
    """How far a measure of a head moved from the first to the last step, and when it moved most."""

    layer: int
    head: int
    measure: str
    first: float
    last: float
    after_step: int
    by_step: int
    """Between these two steps it moved farthest."""


@dataclass(frozen=True)
class Summary:
    """The stages of the loss (None without a loss), and the largest changes of heads."""

    steps: tuple[int, ...]
    layers: int
    heads: int
    adapter: str
    stages: Stages | None
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        if not self.steps:
            return "nothing is observed yet"
        span = f"{self.steps[0]} to {self.steps[-1]}" if len(self.steps) > 1 else self.steps[0]
        lines = [
            f"{counted(len(self.steps), 'step')} ({span}) of {counted(self.layers, 'layer')} with "
            f"{counted(self.heads, 'head')} each, {self.adapter}"
        ]
        lines += ["", repr(self.stages)] if self.stages is not None else []
        if self.changes:
            headings = ("head", "measure", "first", "last", "most between steps")
            cells = [
                (
                    f"{one.layer}.{one.head}",
                    one.measure,
                    f"{one.first:.2f}",
                    f"{one.last:.2f}",
                    f"{one.after_step} and {one.by_step}",
                )
                for one in self.changes
            ]
            lines += ["", "Heads that changed most:", text_table(headings, cells, left=2)]
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes])

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "steps": list(self.steps),
            "layers": self.layers,
            "heads": self.heads,
            "adapter": self.adapter,
            "stages": None if self.stages is None else self.stages.to_dict(),
            "changes": [asdict(change) for change in self.changes],
            "notes": list(self.notes),
        }


def summarise(dataset: xr.Dataset) -> Summary:
    """The summary of an observation that `load` returns."""
    return Summary(
        steps=tuple(dataset["step"].values.tolist()),
        layers=dataset.sizes["layer"],
        heads=dataset.sizes["head"],
        adapter=str(dataset.attrs["adapter"]),
        stages=loss_stages(dataset),
        changes=tuple(sorted(_changes(dataset), key=_size, reverse=True)[:_MOST]),
        notes=tuple(dataset.attrs["notes"]),
    )


def loss_stages(dataset: xr.Dataset) -> Stages | None:
    """The stages of an observed run's loss; None if it is unknown or too short."""
    losses = dataset["loss"].dropna("loss_step")
    try:
        return stages(losses.values, losses["loss_step"].values)
    except InvalidInput:
        return None


def _changes(dataset: xr.Dataset) -> Iterable[Change]:
    steps = dataset["step"].values
    for name in _FOLLOWED:
        if name not in dataset or len(steps) < 2:
            continue
        values = dataset[name].transpose("layer", "head", "step").values
        for layer, head in np.ndindex(values.shape[:2]):
            known = np.flatnonzero(np.isfinite(values[layer, head]))
            if len(known) < 2:
                continue
            course = values[layer, head][known]
            fastest = int(np.argmax(np.abs(np.diff(course))))
            after, by = steps[known[fastest : fastest + 2]].tolist()
            yield Change(layer, head, name, float(course[0]), float(course[-1]), after, by)


def _size(change: Change) -> float:
    """How many times larger or smaller it has become."""
    ends = np.maximum([change.first, change.last], np.finfo(float).tiny)
    return float(abs(np.log(ends[1] / ends[0])))
