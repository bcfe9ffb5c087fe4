"""The measures of all heads of a model at one step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import AnyArray, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.measure import (
    FactoredMatrix,
    effective_rank,
    marginalised_effective_rank,
    stable_rank,
)
from saddlescope.measure.subspace import turned
from saddlescope.observe import adapters
from saddlescope.observe._padding import stacked
from saddlescope.observe.adapters import AbstractAdapter
from saddlescope.observe.weights import AbstractWeights
from saddlescope.running.cores import on_all_cores

if TYPE_CHECKING:
    from torch import Tensor

Directions = dict[str, "Tensor"]
"""The leading row space [head, k, d_model] of each circuit of each layer, by `qk/LAYER`."""

CIRCUITS = ("qk", "ov")
_NUMBERS: dict[str, Callable[[FactoredMatrix], object]] = {
    "effective_rank": effective_rank,
    "marginal_rank": marginalised_effective_rank,
    "stable_rank": stable_rank,
    "norm": FactoredMatrix.norm,
    "spectral_norm": lambda matrix: matrix.singular_values()[..., 0],
}
SPECTRUM = "spectrum"
DRIFT, TURN = "drift", "turn"


@dataclass(frozen=True)
class HeadOptions:
    """How heads are measured.

    - `directions`: how many leading directions of a circuit `drift` and `turn` follow.
    - `fold_norms`: fold the gain and bias of the norm in front of each layer into its circuits.
    - `adapter`: an adapter or the name of a known one; None tries all.
    """

    directions: int = 4
    fold_norms: bool = False
    adapter: AbstractAdapter | str | None = None

    @property
    def kept(self) -> dict[str, object]:
        """The options that all records of an observation must share."""
        return {"directions": self.directions, "fold_norms": self.fold_norms}

    def __post_init__(self) -> None:
        vars(self)["directions"] = whole_number("directions", self.directions)
        adapters.chosen(self.adapter)
        if not isinstance(self.fold_norms, bool):
            raise InvalidInput("fold_norms", self.fold_norms, "must be True or False")


@dataclass(frozen=True, eq=False)
class HeadMeasures:
    """The measures: `arrays` [layer, head] or [layer, head, index], NaN where one is missing.

    `problems` says what could not be measured, `notes` what a reader must know.
    """

    adapter: str
    layers: tuple[str, ...]
    arrays: Mapping[str, AnyArray]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    directions: Directions = field(repr=False)


def measure_heads(
    weights: AbstractWeights,
    options: HeadOptions,
    before: Mapping[str, Directions],
) -> HeadMeasures:
    """Measure every head; `before` holds the directions that `drift` and `turn` start from."""
    adapter, layers = adapters.find(weights, options.adapter)

    def measured(index: int) -> _Layer:
        layer = _Layer(index, layers[index])
        layer.measure(adapter, weights, options, before)
        return layer

    done = _for_each(measured, len(layers), weights)
    found = {(name, one.index): value for one in done for name, value in one.found.items()}
    return HeadMeasures(
        adapter.name,
        tuple(layers),
        _gathered(found, len(layers)),
        tuple(problem for one in done for problem in one.problems),
        tuple(dict.fromkeys(note for one in done for note in one.notes)),
        {name: rows for one in done for name, rows in one.directions.items()},
    )


@dataclass(eq=False)
class _Layer:
    """One layer and its measures."""

    index: int
    name: str
    found: dict[str, Tensor] = field(default_factory=dict)
    directions: Directions = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def measure(
        self,
        adapter: AbstractAdapter,
        weights: AbstractWeights,
        options: HeadOptions,
        before: Mapping[str, Directions],
    ) -> None:
        """Measure its two circuits; a failure is noted."""
        with self._noting(""):
            read = adapter.read(weights, self.name)
            circuits = read.circuits(fold_norms=options.fold_norms)
            self.notes = read.remarks(fold_norms=options.fold_norms)
            for circuit, matrix in zip(CIRCUITS, (circuits.qk, circuits.ov), strict=True):
                self._measure_circuit(circuit, matrix, options.directions, before)

    def _measure_circuit(
        self, circuit: str, matrix: FactoredMatrix, count: int, before: Mapping[str, Directions]
    ) -> None:
        key = f"{circuit}/{self.index}"
        with self._noting(f", {circuit}_{SPECTRUM}"):
            # First, so that one decomposition gives directions and singular values.
            rows = matrix.leading_rows(min(count, matrix.left.shape[-1]))
            self.directions[key] = rows  # type: ignore[assignment]
            self.found[f"{circuit}_{SPECTRUM}"] = matrix.singular_values()  # type: ignore[assignment]
        for name, function in _NUMBERS.items():
            with self._noting(f", {circuit}_{name}"):
                self.found[f"{circuit}_{name}"] = function(matrix)  # type: ignore[assignment]
        for name, earlier in before.items():
            with self._noting(f", {circuit}_{name}"):
                if key in earlier and key in self.directions:
                    now = _turned(earlier[key], self.directions[key])
                    self.found[f"{circuit}_{name}"] = now

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:
            text = " ".join(str(problem).split()) or type(problem).__name__
            self.problems.append(f"{self.name}{what}: {text}")


def _for_each(
    function: Callable[[int], _Layer], count: int, weights: AbstractWeights
) -> list[_Layer]:
    """The function's value for every layer; on the CPU on one single-threaded worker per core.

    Threads that synchronise within a small matrix cost more than the work itself, ten times as
    much on a busy machine.
    """
    import torch

    indices = range(count)
    if not weights.is_on_cpu:
        return [function(index) for index in indices]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return on_all_cores(function, indices, most=threads)
    finally:
        torch.set_num_threads(threads)


def _turned(before: Tensor, now: Tensor) -> Tensor:
    if before.shape != now.shape:
        allowed = f"were {tuple(before.shape)} before"
        raise InvalidInput("directions.shape", tuple(now.shape), allowed)
    # On the device of the model as it is, which may have moved.
    return turned(before.to(now.device), now)  # type: ignore[return-value]


def _gathered(found: Mapping[tuple[str, int], Tensor], layers: int) -> dict[str, AnyArray]:
    """All results in NumPy, copied from the device in one go."""
    import torch

    if not found:
        return {}
    flat = torch.cat([one.reshape(-1).float() for one in found.values()]).cpu().numpy()
    sizes = np.cumsum([math.prod(one.shape) for one in found.values()])[:-1]
    parts = [
        part.reshape(one.shape)
        for part, one in zip(np.split(flat, sizes), found.values(), strict=True)
    ]
    by_name: dict[str, dict[int, AnyArray]] = {}
    for (name, index), part in zip(found, parts, strict=True):
        by_name.setdefault(name, {})[index] = part
    return {name: stacked(own, layers) for name, own in by_name.items()}
