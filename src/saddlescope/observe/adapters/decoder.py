"""Our own decoders (`saddlescope.transformer`): weights stacked over layers."""

from __future__ import annotations

from saddlescope.observe.adapters.base import AbstractAdapter, AttentionLayer
from saddlescope.observe.weights import AbstractWeights

_NAMES = ("W_Q", "W_K", "W_V", "W_O")


class OwnDecoder(AbstractAdapter):
    """`W_Q[layer, head, d_head, d_model]` and so on; no biases."""

    name = "decoder"

    def layers(self, weights: AbstractWeights) -> list[str]:
        """Their numbers."""
        if not set(_NAMES) <= set(weights.names):
            return []
        query = weights.read("W_Q")
        return [str(layer) for layer in range(len(query))] if query.ndim == 4 else []

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One layer."""
        index = int(layer)
        query, key, value, output = (weights.read(name)[index] for name in _NAMES)
        gains = weights.find("attention_gain")
        rotary = weights.setting("", "positions") == "rotary" or "W_P" not in weights.names
        gain = None if gains is None else gains[index]
        return AttentionLayer(query, key, value, output, gain=gain, rotary=rotary)
