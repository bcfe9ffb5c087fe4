"""Named weights as one flat vector, which the compiled loops work on."""

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
    """Where each named weight lies in the flat vector."""

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
    def by_head(self) -> AnyArray:
        """Where the weights of each head lie, [H, m], if heads are the first axis of each."""
        heads, places = self.shapes[0][1][0], np.arange(self.size)
        parts = self.unpack(places).values()
        return np.concatenate([part.reshape(heads, -1) for part in parts], axis=1)

    def places_in(self, larger: Layout) -> AnyArray:
        """Where each of the weights lies in the flat vector of a layout that they fit in, [n]."""
        places, start = [], 0
        for (name, own), (other, shape) in zip(self.shapes, larger.shapes, strict=True):
            assert name == other
            inside = np.ravel_multi_index(np.indices(own), shape) if own else np.zeros(1, int)
            places.append(start + inside.reshape(-1))
            start += math.prod(shape)
        return np.concatenate(places)

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
        """Name the parts of a flat vector, whatever axes come before its last one."""
        borders = accumulate((math.prod(shape) for _, shape in self.shapes), initial=0)
        return {
            name: vector[..., start:stop].reshape(*vector.shape[:-1], *shape)
            for (name, shape), (start, stop) in zip(self.shapes, pairwise(borders), strict=True)
        }
