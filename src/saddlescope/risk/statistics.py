"""The loss by way of sufficient statistics, of prompts or of a law (T6)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, apply_to_rows, unvectorise, vectorise
from saddlescope.checks import FloatArray
from saddlescope.risk.base import AbstractMapRisk


class StatisticsRisk(AbstractMapRisk):
    """The mean-square loss of whatever is linear in the features that were summed up."""

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

    def best_map(self, capacity: int) -> FloatArray | None:
        if capacity**2 != len(self.cross_moment):
            return None
        best, *_ = np.linalg.lstsq(self.second_moment, self.cross_moment, rcond=None)
        return np.asarray(unvectorise(best))


def _as_vector(effective_map: Array) -> Array:
    return effective_map if effective_map.ndim == 1 else vectorise(effective_map)
