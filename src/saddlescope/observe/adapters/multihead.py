"""`torch.nn.MultiheadAttention`, alone or in `torch.nn.Transformer`'s layers."""

from __future__ import annotations

from saddlescope.observe.adapters import _split as split
from saddlescope.observe.adapters.base import AbstractAdapter, AttentionLayer, layers_with, under
from saddlescope.observe.weights import AbstractWeights

_OUTPUT = ".out_proj.weight"
_SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


class MultiheadAttention(AbstractAdapter):
    """`in_proj_weight`, or a map each where keys or values have a size of their own.

    Whether a norm stands in front is not the module's own affair: none is folded in.
    """

    name = "multihead"

    def layers(self, weights: AbstractWeights) -> list[str]:
        """The modules with an input map, fused or not."""
        names = set(weights.names)
        return [
            layer
            for layer in layers_with(weights, _OUTPUT)
            if names & {under(layer, "in_proj_weight"), under(layer, "q_proj_weight")}
        ]

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One module."""
        heads = weights.heads(layer, "num_heads", "nhead")
        fused = weights.find(under(layer, "in_proj_weight"))
        if fused is None:
            maps = tuple(weights.read(under(layer, name)) for name in _SEPARATE)
        else:
            maps = fused.chunk(3)
        bias = weights.find(under(layer, "in_proj_bias"))
        b_Q, b_K, b_V = split.fused_biases(bias, heads)
        query, key, value = (split.inward(part, heads) for part in maps)
        return AttentionLayer(
            query,
            key,
            value,
            split.outward(weights.read(under(layer, "out_proj.weight")), heads),
            b_Q,
            b_K,
            b_V,
            weights.find(under(layer, "out_proj.bias")),
        )
