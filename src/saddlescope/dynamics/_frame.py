"""A larger shape in which what follows from records is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray


@dataclass(frozen=True, eq=False)
class Frame:
    """A shape that records of many shapes fit in: none other is compiled for them."""

    model: AbstractAttention
    dimension: int
    rows: int
    points: int

    def enlarge(self, weights: Weights) -> Weights:
        """Records of weights, [S, T, …], with zeros wherever there is more room."""
        shapes = self.model.shapes(self.dimension)

        def fill(name: str, array: FloatArray) -> FloatArray:
            larger = np.zeros((self.rows, self.points, *shapes[name]), array.dtype)
            larger[tuple(slice(size) for size in array.shape)] = array
            return larger

        return {name: fill(name, array) for name, array in weights.items()}
