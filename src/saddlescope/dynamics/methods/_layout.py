"""Named weights as the flat vector that compiled loops work on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from saddlescope.arrays import Array, Weights, namespace
from saddlescope.attention import AbstractAttention
from saddlescope.checks import AnyArray


@dataclass(frozen=True)
class Layout:
    """Where each named weight is in the flat vector."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dimension: int

    @classmethod
    def of(cls, model: AbstractAttention, dimension: int) -> Layout:
        """The layout of a model's weights at input dimension D."""
        return cls(tuple(model.shapes(dimension).items()), dimension)

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    @property
    def head_indices(self) -> AnyArray:
        """The indices of each head's weights, [H, m]; every weight must have heads first."""
        heads, indices = self.shapes[0][1][0], np.arange(self.size)
        parts = self.unpack(indices).values()
        return np.concatenate([part.reshape(heads, -1) for part in parts], axis=1)

    def indices_in(self, larger: Layout) -> AnyArray:
        """The index of each weight in the flat vector of a larger layout, [n]."""
        indices, start = [], 0
        for (name, shape), (other, larger_shape) in zip(self.shapes, larger.shapes, strict=True):
            assert name == other
            grid = np.indices(shape)
            inside = np.ravel_multi_index(grid, larger_shape) if shape else np.zeros(1, int)
            indices.append(start + inside.reshape(-1))
            start += math.prod(larger_shape)
        return np.concatenate(indices)

    def pack(self, weights: Weights) -> Array:
        """Flatten named weights along the last axis."""
        lead = weights[self.shapes[0][0]].ndim - len(self.shapes[0][1])
        parts = [
            weights[name].reshape(*weights[name].shape[:lead], math.prod(shape))
            for name, shape in self.shapes
        ]
        vector: Array = namespace(*parts).concatenate(parts, axis=-1)
        return vector

    def unpack(self, vector: Array) -> Weights:
        """Split the last axis of an array into named weights."""
        offsets = accumulate((math.prod(shape) for _, shape in self.shapes), initial=0)
        return {
            name: vector[..., start:stop].reshape(*vector.shape[:-1], *shape)
            for (name, shape), (start, stop) in zip(self.shapes, pairwise(offsets), strict=True)
        }
