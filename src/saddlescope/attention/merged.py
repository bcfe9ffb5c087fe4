"""Attention whose key and query are merged into one matrix per head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights, namespace
from saddlescope.attention.base import AbstractLinearAttention, Parametrisation
from saddlescope.attention.formulas.blocks import block_coefficients, block_pull_back, zero_blocks
from saddlescope.attention.formulas.query_row import query_row, with_label
from saddlescope.checks import FloatArray
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.task import Prompts


@kind("model", "merged")
@dataclass(frozen=True)
class MergedAttention(AbstractLinearAttention):
    r"""ATTN_M: $\hat y = \sum_i v_i\, \beta^\top U_i x_q$ (Z eq. 10), weights `v[H]`, `U[H, D, D]`.

    `blocks="full"` adds `nu[H, D]` and `u[H, D]` (T5), which start at zero. `activation="softmax"`
    takes the softmax of the scores times `softmax_scale`: over the context with
    `normalisation="context"`, over the query too with `"none"` (the authors' code).

    >>> MergedAttention(heads=8).shapes(4)
    {'v': (8,), 'U': (8, 4, 4)}
    """

    heads: int
    normalisation: str = "context"
    blocks: str = "reduced"
    activation: str = "linear"
    softmax_scale: float = 1.0

    degree = 2
    parametrisation = Parametrisation.MERGED

    @property
    def inert_sizes(self) -> tuple[str, ...]:
        return ("heads",) if self.is_linear else ()

    @property
    def sums_heads(self) -> bool:
        return self.is_linear

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return self._with_blocks(
            {"v": ("head",), "U": ("head", "dim", "query_dim")},
            {"nu": ("head", "dim"), "u": ("head", "query_dim")},
        )

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        rows = (self.heads, dimension)
        return self._with_blocks(
            {"v": (self.heads,), "U": (*rows, dimension)}, {"nu": rows, "u": rows}
        )

    def deviations(self, dimension: int) -> dict[str, float]:
        entry = self.heads**-0.5
        return self._with_blocks({"v": entry, "U": entry / dimension}, {"nu": 0.0, "u": 0.0})

    def capacity(self, dimension: int) -> int:
        return dimension

    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Float[Array, "D D"]:
        return ((gain * weights["v"])[:, None, None] * weights["U"]).sum(0)

    def coefficients(self, weights: Weights, gain: Array = 1.0) -> Array:
        if self.blocks == "reduced":
            return self.effective_map(weights, gain)
        return gain * block_coefficients(weights)

    def pull_back(self, weights: Weights, force: Array) -> Weights:
        if self.blocks == "full":
            return block_pull_back(weights, force)
        return {
            "v": (weights["U"] * force[None]).sum((-2, -1)),
            "U": weights["v"][:, None, None] * force[None],
        }

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        if self.is_summarised:
            return super().predict(weights, prompts, gain)
        v, U, xp = weights["v"], weights["U"], namespace(weights["U"], prompts.x)
        keys = with_label(U.swapaxes(1, 2), weights.get("u"))
        # Heads last already in the product: of the many prompts nothing is turned round.
        directions = xp.einsum("pb,bth->pth", prompts.query, xp.moveaxis(keys, 0, -1))
        values = with_label(weights.get("nu", xp.zeros_like(U[:, 0])), v)
        predicted = query_row(prompts, directions, values, self.row_options)
        return predicted if self.activation == "softmax" else gain * predicted

    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        turned = {"v": weights["v"], "U": basis.T @ weights["U"] @ basis}
        return turned | {name: weights[name] @ basis for name in ("nu", "u") if name in weights}

    def conserved(self, weights: Weights) -> Weights:
        if self.activation == "softmax":
            return {}
        values, columns = weights["v"][:, None], weights["U"].reshape(self.heads, -1)
        balance = values @ values.T - columns @ columns.T
        if self.blocks == "full":
            balance = balance + weights["nu"] @ weights["nu"].T - weights["u"] @ weights["u"].T
        return {"value_balance": balance}

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        return {} if self.activation == "softmax" else {"value_balance": ("head", "other_head")}

    def balance(self, weights: Weights) -> Weights:
        # v vᵀ = (U_i·U_j) for all pairs forces U_i = v_i M with one unit matrix M.
        v = np.asarray(weights["v"])
        shared = np.einsum("...h,...hde->...de", v, np.asarray(weights["U"]))
        size = np.linalg.norm(shared, axis=(-2, -1), keepdims=True)
        matrices = v[..., None, None] * (shared / size)[..., None, :, :]
        return {**zero_blocks(weights, ("nu", "u")), "v": v, "U": matrices}

    def realise(self, effective_map: FloatArray) -> Weights:
        value = np.sqrt(np.linalg.norm(effective_map))
        weights = {name: np.zeros(shape) for name, shape in self.shapes(len(effective_map)).items()}
        if value > 0:
            weights["v"][0], weights["U"][0] = value, effective_map / value
        return weights
