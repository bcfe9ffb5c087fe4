"""A model of your own: linear attention whose key is its query.

    python examples/own_model.py
    saddlescope train --model examples/own_model.py:TiedAttention --heads 5 --out out/tied

A model with an effective map provides the shapes of its weights, the map, the velocity of the
weights given the force on the map, and what flow conserves. Exact training, saving and the command
line follow. The theory predicts it too, because it says which attention it is in other coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import saddlescope as ss
from saddlescope.arrays import Array, Weights

# With v = V/c and k = √2 K/c, c³ = 2, tied weights are separate ones whose key and query are both
# K, and follow the same path c² times as fast.
_VALUE = 2 ** (-1 / 3)
_KEY = 2 ** (1 / 6)
_PACE = 2 ** (2 / 3)


@dataclass(frozen=True)
class TiedAttention(ss.AbstractLinearAttention):
    r"""$\hat y = \sum_i v_i\,\beta^\top k_i k_i^\top x_q$, weights `v[H]`, `k[H, D]`."""

    heads: int = 5
    normalisation: str = "context"

    @property
    def degree(self) -> int:
        return 3

    @property
    def sums_heads(self) -> bool:
        return True

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"v": ("head",), "k": ("head", "dim")}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        return {"v": (self.heads,), "k": (self.heads, dimension)}

    def deviations(self, dimension: int) -> dict[str, float]:
        return {"v": self.heads**-0.5, "k": (self.heads * dimension) ** -0.5}

    def capacity(self, dimension: int) -> int:
        return min(dimension, self.heads)

    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Array:
        v, k = weights["v"], weights["k"]
        return ((gain * v)[:, None, None] * k[:, :, None] * k[:, None, :]).sum(0)

    def pull_back(self, weights: Weights, force: Array) -> Weights:
        v, k = weights["v"], weights["k"]
        along = k @ force
        return {"v": (along * k).sum(-1), "k": v[:, None] * (along + k @ force.T)}

    def rotate(self, weights: Weights, basis: Array) -> Weights:
        return {"v": weights["v"], "k": weights["k"] @ basis}

    def conserved(self, weights: Weights) -> Weights:
        return {"key_value_balance": (weights["k"] ** 2).sum(-1) - 2 * weights["v"] ** 2}

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"key_value_balance": ("head",)}

    def balance(self, weights: Weights) -> Weights:
        v, k = weights["v"], weights["k"]
        lengths = np.sqrt(2) * np.abs(v) / np.linalg.norm(k, axis=-1)
        return {"v": v, "k": lengths[..., None] * k}

    def realise(self, effective_map: Array) -> Weights:
        values, vectors = np.linalg.eigh((effective_map + effective_map.T) / 2)
        largest = np.argsort(-np.abs(values))[: self.heads]
        weights = {name: np.zeros(shape) for name, shape in self.shapes(len(values)).items()}
        for head, index in enumerate(largest[values[largest] != 0]):
            square = np.cbrt(2 * values[index] ** 2)
            weights["v"][head] = values[index] / square
            weights["k"][head] = np.sqrt(square) * vectors[:, index]
        return weights

    # The rest is for the theory: which attention this is in other coordinates.

    @property
    def parametrisation(self) -> ss.Parametrisation:
        return ss.Parametrisation.SEPARATE

    def time_unit(self, gain: float) -> float:
        return _PACE * super().time_unit(gain)

    def to_attention(self, weights: Weights) -> Weights:
        key = weights["k"][..., None, :] / _KEY
        return {"v": weights["v"] / _VALUE, "k": key, "q": key}

    def from_attention(self, weights: Weights) -> Weights:
        key = (weights["k"] + weights["q"])[..., 0, :] / 2
        return {"v": _VALUE * weights["v"], "k": _KEY * key}


if __name__ == "__main__":
    task = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
    print(ss.train(TiedAttention(), task, method=ss.GradientFlow(until=20_000)).compare())
