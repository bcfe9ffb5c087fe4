"""Attention with separate keys and queries of a given rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlescope.attention.base import (
    AbstractAttention,
    Array,
    Weights,
    apply_to_rows,
    outer_sum,
    singular_parts,
)
from saddlescope.checks import FloatArray, whole_number
from saddlescope.errors import InvalidInput


@dataclass(frozen=True)
class SeparateAttention(AbstractAttention):
    r"""ATTN_S: $U_i = \sum_r k_{i,r} q_{i,r}^\top$ (Z eq. 17, 78), weights `v[H]`, `k, q[H, R, D]`.

    >>> SeparateAttention(heads=5, rank=2).shapes(4)
    {'v': (5,), 'k': (5, 2, 4), 'q': (5, 2, 4)}
    """

    heads: int
    rank: int = 1
    normalisation: str = "context"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rank", whole_number("rank", self.rank))

    @property
    def degree(self) -> int:
        return 3

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"v": ("head",), "k": ("head", "rank", "dim"), "q": ("head", "rank", "dim")}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        pairs = (self.heads, self.rank, dimension)
        return {"v": (self.heads,), "k": pairs, "q": pairs}

    def deviations(self, dimension: int) -> dict[str, float]:
        entry = (self.heads * self.rank * dimension) ** -0.5
        return {"v": self.heads**-0.5, "k": entry, "q": entry}

    def capacity(self, dimension: int) -> int:
        return min(dimension, self.heads * self.rank)

    def effective_map(self, weights: Weights, gain: Any = 1.0) -> Float[Array, "D D"]:
        v, k, q = weights["v"], weights["k"], weights["q"]
        dimension = k.shape[-1]
        keys = (gain * v)[:, None, None] * k
        return outer_sum(keys.reshape(-1, dimension), q.reshape(-1, dimension))

    def pull_back(self, weights: Weights, force: Float[Array, "D D"]) -> Weights:
        v, k, q = weights["v"], weights["k"], weights["q"]
        dimension = k.shape[-1]
        on_queries = apply_to_rows(q.reshape(-1, dimension), force).reshape(k.shape)
        on_keys = apply_to_rows(k.reshape(-1, dimension), force.T).reshape(k.shape)
        return {
            "v": (k * on_queries).sum((-2, -1)),
            "k": v[:, None, None] * on_queries,
            "q": v[:, None, None] * on_keys,
        }

    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        return {"v": weights["v"], "k": weights["k"] @ basis, "q": weights["q"] @ basis}

    def conserved(self, weights: Weights) -> Weights:
        keys = (weights["k"] ** 2).sum(-1)
        return {
            "key_query_balance": keys - (weights["q"] ** 2).sum(-1),
            "key_value_balance": keys.sum(-1) - weights["v"] ** 2,
        }

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"key_query_balance": ("head", "rank"), "key_value_balance": ("head",)}

    def balance(self, weights: Weights) -> Weights:
        v, k, q = (np.asarray(weights[name]) for name in ("v", "k", "q"))
        size = np.abs(v)[:, None, None] / np.sqrt(self.rank)
        return {
            "v": v,
            "k": size * k / np.linalg.norm(k, axis=-1, keepdims=True),
            "q": size * q / np.linalg.norm(q, axis=-1, keepdims=True),
        }

    def realise(self, effective_map: FloatArray) -> Weights:
        # Σ_heads (Σ_r ξ)^{2/3} is least when the largest ξ share a head: fill heads in order.
        keys, values, queries = singular_parts(effective_map)
        if len(values) > self.heads * self.rank:
            raise InvalidInput(
                "heads × rank", self.heads * self.rank, f"cannot carry {len(values)} directions"
            )
        weights = {name: np.zeros(shape) for name, shape in self.shapes(len(effective_map)).items()}
        for head, start in enumerate(range(0, len(values), self.rank)):
            carried = slice(start, start + self.rank)
            count = len(values[carried])
            value = np.cbrt(values[carried].sum())
            lengths = np.sqrt(values[carried] / value)[:, None]
            weights["v"][head] = value
            weights["k"][head, :count] = lengths * keys[carried]
            weights["q"][head, :count] = lengths * queries[carried]
        return weights
