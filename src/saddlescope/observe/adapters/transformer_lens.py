"""TransformerLens' HookedTransformer: weights by heads already, inputs before outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.observe.adapters.base import (
    HEAD_NORMS,
    AbstractAdapter,
    AttentionLayer,
    layers_with,
)
from saddlescope.observe.weights import AbstractWeights

if TYPE_CHECKING:
    from torch import Tensor

_QUERY = ".attn.W_Q"


class TransformerLens(AbstractAdapter):
    """`W_Q[head, d_model, d_head]` … `W_O[head, d_head, d_model]`, acting on row vectors.

    With grouped queries the keys' and values' own weights are `_W_K` and `_W_V`.
    """

    name = "transformer_lens"

    def layers(self, weights: AbstractWeights) -> list[str]:
        """The blocks."""
        return layers_with(weights, _QUERY)

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One block."""
        attention = f"{layer}.attn."

        def weight(name: str) -> Tensor:
            grouped = f"{attention}_{name}"
            return weights.read(grouped if grouped in weights.names else attention + name).mT

        def bias(name: str) -> Tensor | None:
            return weights.find(f"{attention}_{name}", attention + name)

        kind = weights.setting("", "positional_embedding_type")
        return AttentionLayer(
            weight("W_Q"),
            weight("W_K"),
            weight("W_V"),
            weight("W_O"),
            bias("b_Q"),
            bias("b_K"),
            bias("b_V"),
            bias("b_O"),
            weights.find(f"{layer}.ln1.w"),
            weights.find(f"{layer}.ln1.b"),
            rotary=kind == "rotary",
            notes=(HEAD_NORMS,) if f"{attention}q_norm.w" in weights.names else (),
        )
