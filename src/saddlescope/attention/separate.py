"""Attention with separate keys and queries of a given rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights, apply_to_rows, namespace, outer_sum
from saddlescope.attention.base import AbstractLinearAttention, Parametrisation
from saddlescope.attention.formulas.blocks import block_coefficients, block_pull_back, zero_blocks
from saddlescope.attention.formulas.query_row import query_row, with_label
from saddlescope.checks import FloatArray, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.task import Prompts


@kind("model", "separate")
@dataclass(frozen=True)
class SeparateAttention(AbstractLinearAttention):
    r"""ATTN_S: $U_i = \sum_r k_{i,r} q_{i,r}^\top$ (Z eq. 17, 78), weights `v[H]`, `k, q[H, R, D]`.

    `blocks="full"` adds `nu[H, D]` and `kappa[H, R]` (T5), which start at zero; `activation` as in
    `MergedAttention`.

    - `rank`: R, the number of key–query pairs of a head.

    >>> SeparateAttention(heads=5, rank=2).shapes(4)
    {'v': (5,), 'k': (5, 2, 4), 'q': (5, 2, 4)}
    """

    heads: int
    rank: int = 1
    normalisation: str = "context"
    blocks: str = "reduced"
    activation: str = "linear"
    softmax_scale: float = 1.0

    degree = 3
    parametrisation = Parametrisation.SEPARATE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rank", whole_number("rank", self.rank))

    @property
    def pairs(self) -> int:
        return self.rank

    @property
    def inert_sizes(self) -> tuple[str, ...]:
        return ("heads", "rank") if self.is_linear else ()

    @property
    def sums_heads(self) -> bool:
        return self.is_linear

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        pairs = ("head", "rank", "dim")
        return self._with_blocks(
            {"v": ("head",), "k": pairs, "q": pairs},
            {"nu": ("head", "dim"), "kappa": ("head", "rank")},
        )

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        pairs = (self.heads, self.rank, dimension)
        return self._with_blocks(
            {"v": (self.heads,), "k": pairs, "q": pairs},
            {"nu": (self.heads, dimension), "kappa": (self.heads, self.rank)},
        )

    def deviations(self, dimension: int) -> dict[str, float]:
        entry = (self.heads * self.rank * dimension) ** -0.5
        return self._with_blocks(
            {"v": self.heads**-0.5, "k": entry, "q": entry}, {"nu": 0.0, "kappa": 0.0}
        )

    def capacity(self, dimension: int) -> int:
        return min(dimension, self.heads * self.rank)

    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Float[Array, "D D"]:
        v, k, q = weights["v"], weights["k"], weights["q"]
        dimension = k.shape[-1]
        keys = (gain * v)[:, None, None] * k
        return outer_sum(keys.reshape(-1, dimension), q.reshape(-1, dimension))

    def coefficients(self, weights: Weights, gain: Array = 1.0) -> Array:
        if self.blocks == "reduced":
            return self.effective_map(weights, gain)
        return gain * block_coefficients(merge_blocks(weights))

    def pull_back(self, weights: Weights, force: Array) -> Weights:
        v, k, q = weights["v"], weights["k"], weights["q"]
        if self.blocks == "full":
            merged = block_pull_back(merge_blocks(weights), force)
            kappa = weights["kappa"]
            return {
                "v": merged["v"],
                "k": (merged["U"][:, None] * q[:, :, None, :]).sum(-1),
                "q": (merged["U"][:, None] * k[:, :, :, None]).sum(-2)
                + kappa[:, :, None] * merged["u"][:, None],
                "nu": merged["nu"],
                "kappa": (merged["u"][:, None] * q).sum(-1),
            }
        dimension = k.shape[-1]
        on_queries = apply_to_rows(q.reshape(-1, dimension), force).reshape(k.shape)
        on_keys = apply_to_rows(k.reshape(-1, dimension), force.T).reshape(k.shape)
        return {
            "v": (k * on_queries).sum((-2, -1)),
            "k": v[:, None, None] * on_queries,
            "q": v[:, None, None] * on_keys,
        }

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        if self.is_summarised:
            return super().predict(weights, prompts, gain)
        v, k, xp = weights["v"], weights["k"], namespace(weights["k"], prompts.x)
        matched = xp.einsum("hrd,pd->phr", weights["q"], prompts.query)
        keys = with_label(k, weights.get("kappa"))
        directions = xp.einsum("phr,hrt->pth", matched, keys)
        values = with_label(weights.get("nu", xp.zeros_like(k[:, 0])), v)
        predicted = query_row(prompts, directions, values, self.row_options)
        return predicted if self.activation == "softmax" else gain * predicted

    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        turned: Weights = {
            name: weights[name] @ basis for name in ("k", "q", "nu") if name in weights
        }
        return {**weights, **turned}

    def conserved(self, weights: Weights) -> Weights:
        if self.activation == "softmax":
            return {}
        keys, values = (weights["k"] ** 2).sum(-1), weights["v"] ** 2
        if self.blocks == "full":
            keys = keys + weights["kappa"] ** 2
            values = values + (weights["nu"] ** 2).sum(-1)
        return {
            "key_query_balance": keys - (weights["q"] ** 2).sum(-1),
            "key_value_balance": keys.sum(-1) - values,
        }

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        if self.activation == "softmax":
            return {}
        return {"key_query_balance": ("head", "rank"), "key_value_balance": ("head",)}

    def balance(self, weights: Weights) -> Weights:
        v, k, q = (np.asarray(weights[name]) for name in ("v", "k", "q"))
        size = np.abs(v)[..., None, None] / np.sqrt(self.rank)
        return {
            **zero_blocks(weights, ("nu", "kappa")),
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
            own = slice(start, start + self.rank)
            count = len(values[own])
            value = np.cbrt(values[own].sum())
            lengths = np.sqrt(values[own] / value)[:, None]
            weights["v"][head] = value
            weights["k"][head, :count] = lengths * keys[own]
            weights["q"][head, :count] = lengths * queries[own]
        return weights


def merge_blocks(weights: Weights) -> Weights:
    """The merged blocks of heads with separate keys and queries: U = Σ k qᵀ, u = Σ κ q."""
    k, q = weights["k"], weights["q"]
    return {
        "v": weights["v"],
        "nu": weights["nu"],
        "U": (k[:, :, :, None] * q[:, :, None, :]).sum(1),
        "u": (weights["kappa"][:, :, None] * q).sum(1),
    }


def singular_parts(effective_map: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""$W = \sum_m s_m\, a_m b_m^\top$ without its vanishing terms: `a[m, D], s[m], b[m, D]`."""
    left, values, right = np.linalg.svd(effective_map)
    present = values > 1e-12 * max(values[0], np.finfo(float).tiny)
    return left.T[present], values[present], right[present]
