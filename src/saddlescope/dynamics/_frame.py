"""Shapes larger than a setting's own, which several calls share: one program serves them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray


@dataclass(frozen=True)
class Frame:
    """The common size of several batches: what rows are padded to, and how many there are.

    Batches of one frame share a program, and what comes of a row does not hang on the batch that
    it is in: rows that are lacking are filled with the first one.

    - `sizes`: the sizes of the model that can be padded, by name.
    - `dimension`: that of the inputs.
    - `points`: the points of the recording grid.
    - `rows`: seeds of settings.
    - `groups`: how many groups the rows advance in at least, which as many cores can share.
    """

    sizes: tuple[tuple[str, int], ...]
    dimension: int
    points: int
    rows: int
    groups: int = 1


@dataclass(frozen=True, eq=False)
class RecordShape:
    """A shape that records of many shapes fit in: none other is compiled for what follows of them.

    `rows` are those of one setting.
    """

    model: AbstractAttention
    dimension: int
    rows: int
    points: int

    def enlarge(self, weights: Weights) -> Weights:
        """Records of weights, [S, T, …], with zeros wherever there is more room."""
        shapes = self.model.shapes(self.dimension)

        def fill(name: str, array: FloatArray) -> FloatArray:
            whole = (self.rows, self.points, *shapes[name])
            if array.shape == whole:
                return array
            larger = np.zeros(whole, array.dtype)
            larger[tuple(slice(size) for size in array.shape)] = array
            return larger

        return {name: fill(name, array) for name, array in weights.items()}
