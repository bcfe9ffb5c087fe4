"""Llama, Mistral, Qwen and their kin: a linear map each, grouped queries, rotary positions."""

from saddlescope.observe.adapters.projections import Projections

# Qwen2 has biases on queries, keys and values; Qwen3 normalises queries and keys in each head.
LLAMA = Projections(
    "llama",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    output="self_attn.o_proj",
    norm="input_layernorm",
    rotary=True,
)
