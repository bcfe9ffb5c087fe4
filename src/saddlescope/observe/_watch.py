"""What a live run and a series of checkpoints share: measure, compare with before, record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.observe._heads import DRIFT, TURN, Directions, HeadOptions, measure_heads
from saddlescope.observe.store import Record, Store
from saddlescope.observe.weights import AbstractWeights


@dataclass(frozen=True, eq=False)
class _Seen:
    """The directions of a step."""

    step: int
    directions: Directions


@dataclass(frozen=True, eq=False)
class Extra:
    """What a record holds besides the measures of heads."""

    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: Mapping[str, object] = field(default_factory=dict)


class Watch:
    """Measures the heads step after step, comparing each with the first and the previous step."""

    def __init__(self, store: Store, options: HeadOptions, session: int = 0) -> None:
        self.store = store
        self.session = session
        self._options = options
        self._first, self._last = _kept(store)

    def look(self, step: int, weights: AbstractWeights, extra: Extra) -> Record:
        """Measure the heads of these weights, and write the record."""
        began = time.perf_counter()
        seen = {DRIFT: self._last, TURN: self._first}
        before = {name: one for name, one in seen.items() if one is not None and one.step < step}
        found = measure_heads(
            weights, self._options, {name: one.directions for name, one in before.items()}
        )
        record = Record(
            step,
            self.session,
            {**found.arrays, **extra.arrays},
            found.layers,
            found.adapter,
            extra.source,
            (*found.problems, *extra.problems),
            (*found.notes, *extra.notes),
            time.perf_counter() - began,
            before[DRIFT].step if DRIFT in before else None,
        )
        self.store.append(record)
        now = _Seen(step, found.directions)
        self._first = self._first or now
        if self._last is None or self._last.step <= step:
            self._last = now
        return record

    def keep(self) -> None:
        """Keep on disk what the next record, of this or another process, is compared with."""
        pair = {"first": self._first, "last": self._last}
        arrays = {
            f"{name}/{key}": np.asarray(rows.cpu())
            for name, seen in pair.items()
            if seen is not None
            for key, rows in seen.directions.items()
        }
        steps = {name: seen.step for name, seen in pair.items() if seen is not None}
        if steps:
            self.store.keep(arrays, steps)


def _kept(store: Store) -> tuple[_Seen | None, _Seen | None]:
    import torch

    arrays, about = store.kept()
    seen: dict[str, _Seen] = {}
    for name, step in about.items():
        inside = {
            key.removeprefix(f"{name}/"): torch.from_numpy(rows.copy())
            for key, rows in arrays.items()
            if key.startswith(f"{name}/")
        }
        seen[name] = _Seen(int(str(step)), inside)
    return seen.get("first"), seen.get("last")
