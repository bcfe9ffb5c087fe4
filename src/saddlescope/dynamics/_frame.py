"""Common shapes that settings are padded to, so that several calls share one program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray


@dataclass(frozen=True)
class Frame:
    """The common size of several batches: what rows are padded to, and how many there are.

    Batches of one frame share a program, and a row's result does not depend on its batch. Missing
    rows repeat the first.

    - `sizes`: the sizes of the model that can be padded, by name.
    - `dimension`: the input dimension.
    - `points`: the points of the recording grid.
    - `rows`: the number of rows, one for each seed of each setting.
    - `groups`: the least number of groups that rows advance in, so that as many cores share them.
    """

    sizes: tuple[tuple[str, int], ...]
    dimension: int
    points: int
    rows: int
    groups: int = 1


@dataclass(frozen=True, eq=False)
class RecordShape:
    """The shape that one setting's records are padded to, so that processing compiles once."""

    model: AbstractAttention
    dimension: int
    rows: int
    points: int

    def enlarge(self, weights: Weights) -> Weights:
        """Records of weights, [S, T, …], padded with zeros."""
        shapes = self.model.shapes(self.dimension)

        def fill(name: str, array: FloatArray) -> FloatArray:
            padded_shape = (self.rows, self.points, *shapes[name])
            if array.shape == padded_shape:
                return array
            larger = np.zeros(padded_shape, array.dtype)
            larger[tuple(slice(size) for size in array.shape)] = array
            return larger

        return {name: fill(name, array) for name, array in weights.items()}
