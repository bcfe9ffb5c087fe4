"""Attention whose key and query are merged into one matrix per head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlescope.attention.base import AbstractAttention, Array, Weights
from saddlescope.checks import FloatArray


@dataclass(frozen=True)
class MergedAttention(AbstractAttention):
    r"""ATTN_M: $\hat y = \sum_i v_i\, \beta^\top U_i x_q$ (Z eq. 10), weights `v[H]`, `U[H, D, D]`.

    >>> MergedAttention(heads=8).shapes(4)
    {'v': (8,), 'U': (8, 4, 4)}
    """

    heads: int
    normalisation: str = "context"

    @property
    def degree(self) -> int:
        return 2

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"v": ("head",), "U": ("head", "dim", "query_dim")}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        return {"v": (self.heads,), "U": (self.heads, dimension, dimension)}

    def deviations(self, dimension: int) -> dict[str, float]:
        return {"v": self.heads**-0.5, "U": self.heads**-0.5 / dimension}

    def capacity(self, dimension: int) -> int:
        return dimension

    def effective_map(self, weights: Weights, gain: Any = 1.0) -> Float[Array, "D D"]:
        return ((gain * weights["v"])[:, None, None] * weights["U"]).sum(0)

    def pull_back(self, weights: Weights, force: Float[Array, "D D"]) -> Weights:
        return {
            "v": (weights["U"] * force[None]).sum((-2, -1)),
            "U": weights["v"][:, None, None] * force[None],
        }

    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        return {"v": weights["v"], "U": basis.T @ weights["U"] @ basis}

    def conserved(self, weights: Weights) -> Weights:
        v, rows = weights["v"], weights["U"].reshape(self.heads, -1)
        return {"value_balance": v[:, None] * v[None, :] - rows @ rows.T}

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"value_balance": ("head", "other_head")}

    def balance(self, weights: Weights) -> Weights:
        # v vᵀ = (U_i·U_j) for all pairs forces U_i = v_i M with one unit matrix M.
        v = np.asarray(weights["v"])
        shared = np.tensordot(v, np.asarray(weights["U"]), axes=1)
        return {"v": v, "U": v[:, None, None] * shared / np.linalg.norm(shared)}

    def realise(self, effective_map: FloatArray) -> Weights:
        value = np.sqrt(np.linalg.norm(effective_map))
        weights = {name: np.zeros(shape) for name, shape in self.shapes(len(effective_map)).items()}
        if value > 0:
            weights["v"][0], weights["U"][0] = value, effective_map / value
        return weights


def vectorise(matrix: Float[Array, "*S D D"]) -> Float[Array, "*S DD"]:
    """Stack the columns of a matrix: the order of the cubic feature (T4)."""
    return matrix.swapaxes(-1, -2).reshape(*matrix.shape[:-2], -1)


def unvectorise(vector: Float[Array, "*S DD"]) -> Float[Array, "*S D D"]:
    """The matrix whose stacked columns are the vector (T4)."""
    dimension = round(vector.shape[-1] ** 0.5)
    return vector.reshape(*vector.shape[:-1], dimension, dimension).swapaxes(-1, -2)
