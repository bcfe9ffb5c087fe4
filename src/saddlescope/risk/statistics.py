"""The loss from sufficient statistics, of prompts or of a law (T6)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, apply_to_rows, unvectorise, vectorise
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.risk.base import AbstractMapRisk

# Features beyond which a product with all pairs of padded ones costs more than another program.
_MOST_PADDED = 600


class StatisticsRisk(AbstractMapRisk):
    """The mean-square loss of a model that is linear in the features of the statistics."""

    gain: Array
    label_power: Array
    cross_moment: Array
    second_moment: Array

    def map_loss(self, effective_map: Array) -> Float[Array, ""]:
        vector = _as_vector(effective_map)
        response = apply_to_rows(vector[None], self.second_moment)[0]
        return self.label_power + (vector * (response - 2 * self.cross_moment)).sum()

    def map_force(self, effective_map: Array) -> Array:
        response = apply_to_rows(_as_vector(effective_map)[None], self.second_moment)[0]
        force = self.cross_moment - response
        return force if effective_map.ndim == 1 else unvectorise(force)

    def padded(self, dimension: int) -> StatisticsRisk | None:
        size = dimension**2 if _is_map(len(self.cross_moment)) else _blocks(dimension)
        if size > _MOST_PADDED:
            return None
        indices = _padded_indices(len(self.cross_moment), dimension)
        cross, second = np.zeros(size), np.zeros((size, size))
        cross[indices] = self.cross_moment
        second[np.ix_(indices, indices)] = self.second_moment
        return StatisticsRisk(self.gain, self.label_power, cross, second)

    def best_map(self, capacity: int) -> FloatArray | None:
        if capacity**2 != len(self.cross_moment):
            return None
        best, *_ = np.linalg.lstsq(self.second_moment, self.cross_moment, rcond=None)
        return np.asarray(unvectorise(best))


def _blocks(dimension: int) -> int:
    """How many features all blocks have (T5)."""
    return dimension**3 + dimension**2 + dimension


def _is_map(features: int) -> bool:
    """Whether features are those of an effective map, D², and not of all blocks.

    No number is both: of D³ + D² + D = D (D² + D + 1) the factors share no divisor, and the second
    lies between two squares.
    """
    return round(features**0.5) ** 2 == features


def _padded_indices(features: int, dimension: int) -> AnyArray:
    """The index of each feature among those of a larger dimension."""
    if _is_map(features):
        size = round(features**0.5)
        return _flat_indices((size,) * 2, dimension)
    size = next(one for one in range(1, features + 1) if _blocks(one) == features)
    starts = (0, dimension**3, dimension**3 + dimension**2)
    blocks = (_flat_indices((size,) * axes, dimension) for axes in (3, 2, 1))
    return np.concatenate([start + block for start, block in zip(starts, blocks, strict=True)])


def _flat_indices(shape: tuple[int, ...], dimension: int) -> AnyArray:
    """The flat indices of an array's entries in one whose axes are `dimension` long."""
    larger = (dimension,) * len(shape)
    return np.ravel_multi_index(tuple(np.indices(shape)), larger).reshape(-1)


def _as_vector(effective_map: Array) -> Array:
    return effective_map if effective_map.ndim == 1 else vectorise(effective_map)
