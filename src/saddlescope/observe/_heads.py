"""The measures of all heads of a model at one step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
MEASURES = tuple(f"{circuit}_{name}" for circuit in CIRCUITS for name in (*_NUMBERS, DRIFT, TURN))
"""The names of all measures of a head that are one number."""


@dataclass(frozen=True)
class HeadOptions:
    """What is measured of heads.

    - `directions`: how many leading directions of a circuit `drift` and `turn` follow.
    - `fold_norms`: take the gain and bias of the norm in front of each layer into its circuits.
    - `adapter`: an adapter or the name of a known one; None tries all.
    """

    directions: int = 4
    fold_norms: bool = False
    adapter: AbstractAdapter | str | None = None

    def __post_init__(self) -> None:
        whole_number("directions", self.directions)
        if not isinstance(self.fold_norms, bool):
            raise InvalidInput("fold_norms", self.fold_norms, "must be True or False")


@dataclass(frozen=True, eq=False)
class HeadMeasures:
    """What was measured: `arrays` [layer, head] or [layer, head, index], NaN where nothing was.

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
    found: dict[tuple[str, int], Tensor] = {}
    problems: list[str] = []
    notes: dict[str, None] = {}
    directions: Directions = {}
    for index, layer in enumerate(layers):
        try:
            read = adapter.read(weights, layer)
            circuits = read.circuits(fold_norms=options.fold_norms)
        except Exception as problem:
            problems.append(_line(layer, problem))
            continue
        notes |= dict.fromkeys(read.remarks(fold_norms=options.fold_norms))
        for circuit, matrix in zip(CIRCUITS, (circuits.qk, circuits.ov), strict=True):
            try:
                # First, so that one decomposition gives directions and singular values.
                rows = matrix.leading_rows(min(options.directions, matrix.left.shape[-1]))
                directions[f"{circuit}/{index}"] = rows  # type: ignore[assignment]
                found[f"{circuit}_{SPECTRUM}", index] = matrix.singular_values()  # type: ignore[assignment]
            except Exception as problem:
                problems.append(_line(f"{layer}, {circuit}_{SPECTRUM}", problem))
                continue
            wanted = {name: (function, matrix) for name, function in _NUMBERS.items()}
            for name, (function, one) in wanted.items():
                try:
                    found[f"{circuit}_{name}", index] = function(one)  # type: ignore[assignment]
                except Exception as problem:
                    problems.append(_line(f"{layer}, {circuit}_{name}", problem))
            for name, earlier in before.items():
                start = earlier.get(f"{circuit}/{index}")
                try:
                    if start is not None:
                        found[f"{circuit}_{name}", index] = _turned(start, rows)  # type: ignore[arg-type]
                except Exception as problem:
                    problems.append(_line(f"{layer}, {circuit}_{name}", problem))
    arrays = _gathered(found, len(layers))
    return HeadMeasures(
        adapter.name, tuple(layers), arrays, tuple(problems), tuple(notes), directions
    )


def _turned(before: Tensor, now: Tensor) -> Tensor:
    if before.shape != now.shape:
        allowed = f"were {tuple(before.shape)} before"
        raise InvalidInput("directions.shape", tuple(now.shape), allowed)
    # On the device of the model as it is, which may have moved.
    return turned(before.to(now.device), now)  # type: ignore[return-value]


def _line(where: str, problem: Exception) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return f"{where}: {text}"


def _gathered(found: Mapping[tuple[str, int], Tensor], layers: int) -> dict[str, AnyArray]:
    """All results in NumPy; they leave the device at once."""
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
