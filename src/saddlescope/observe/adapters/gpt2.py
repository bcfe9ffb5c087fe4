"""GPT-2: queries, keys and values fused in one map, in Conv1D or, as in nanoGPT, in Linear."""

from __future__ import annotations

from saddlescope.errors import InvalidInput
from saddlescope.observe.adapters import _split as split
from saddlescope.observe.adapters.base import AbstractAdapter, AttentionLayer, layers_with
from saddlescope.observe.weights import AbstractWeights

_FUSED = ".attn.c_attn.weight"


class GPT2(AbstractAdapter):
    """`attn.c_attn` and `attn.c_proj`; Conv1D keeps the transposed of what Linear keeps."""

    name = "gpt2"

    def layers(self, weights: AbstractWeights) -> list[str]:
        """The layers with a fused map."""
        return layers_with(weights, _FUSED)

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One layer."""
        fused, output = (
            weights.read(f"{layer}{_FUSED}"),
            weights.read(f"{layer}.attn.c_proj.weight"),
        )
        rows, columns = fused.shape
        if columns == 3 * rows:
            fused, output = fused.mT, output.mT
        elif rows != 3 * columns:
            allowed = "must be (d_model, 3 d_model), or that transposed"
            raise InvalidInput(f"{layer}{_FUSED}.shape", (rows, columns), allowed)
        heads = weights.heads(f"{layer}.attn", "n_head", "num_heads", "num_attention_heads")
        bias = weights.find(f"{layer}.attn.c_attn.bias")
        b_Q, b_K, b_V = split.fused_biases(bias, heads)
        query, key, value = (split.inward(part, heads) for part in fused.chunk(3))
        return AttentionLayer(
            query,
            key,
            value,
            split.outward(output, heads),
            b_Q,
            b_K,
            b_V,
            weights.find(f"{layer}.attn.c_proj.bias"),
            weights.find(f"{layer}.ln_1.weight"),
            weights.find(f"{layer}.ln_1.bias"),
        )
