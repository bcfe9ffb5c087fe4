"""GPT-NeoX and Pythia: one fused map, whose rows go head by head through query, key and value."""

from __future__ import annotations

from saddlescope.observe.adapters import _split as split
from saddlescope.observe.adapters.base import AbstractAdapter, AttentionLayer, layers_with
from saddlescope.observe.weights import AbstractWeights

_FUSED = ".attention.query_key_value.weight"


class GPTNeoX(AbstractAdapter):
    """`attention.query_key_value` and `attention.dense`; rotary positions."""

    name = "gpt_neox"

    def layers(self, weights: AbstractWeights) -> list[str]:
        """The layers with a fused map."""
        return layers_with(weights, _FUSED)

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One layer."""
        heads = weights.heads(f"{layer}.attention", "num_attention_heads", "num_heads")
        # [head, (query, key, value) × d_head, d_model]
        query, key, value = split.inward(weights.read(f"{layer}{_FUSED}"), heads).chunk(3, dim=1)
        bias = split.by_heads(weights.find(f"{layer}.attention.query_key_value.bias"), heads)
        b_Q, b_K, b_V = (None,) * 3 if bias is None else bias.chunk(3, dim=1)
        return AttentionLayer(
            query,
            key,
            value,
            split.outward(weights.read(f"{layer}.attention.dense.weight"), heads),
            b_Q,
            b_K,
            b_V,
            weights.find(f"{layer}.attention.dense.bias"),
            weights.find(f"{layer}.input_layernorm.weight"),
            weights.find(f"{layer}.input_layernorm.bias"),
            rotary=True,
        )
