"""The circuits of Hugging Face's models written out, by slicing as their own code does."""

from __future__ import annotations

import numpy as np
import torch


def attention_of(model, layer):
    """The attention module of a layer, and the norm in front of it."""
    if hasattr(model, "transformer"):
        block = model.transformer.h[layer]
        return block.attn, block.ln_1
    if hasattr(model, "gpt_neox"):
        block = model.gpt_neox.layers[layer]
        return block.attention, block.input_layernorm
    block = model.model.layers[layer]
    return block.self_attn, block.input_layernorm


def rows_of(weight, head):
    """The rows of a head of four."""
    return weight[4 * head : 4 * head + 4]


def explicit_products(model):
    """QK and OV of every layer's heads, by slicing the weights as each library's own code does."""
    pairs = []
    for layer in range(2):
        attention, _ = attention_of(model, layer)
        shared = [0, 1, 2, 3]
        if hasattr(attention, "c_attn"):
            q, k, v = attention.c_attn.weight.T.split(16)
            out = attention.c_proj.weight.T
        elif hasattr(attention, "query_key_value"):
            fused = attention.query_key_value.weight.view(4, 3, 4, 16)
            q, k, v = (fused[:, n].reshape(16, 16) for n in range(3))
            out = attention.dense.weight
        else:
            q, k, v = (getattr(attention, f"{n}_proj").weight for n in "qkv")
            out, shared = attention.o_proj.weight, [0, 0, 1, 1]
        pairs.append(
            [
                (
                    rows_of(q, head).T @ rows_of(k, shared[head]),
                    rows_of(out.T, head).T @ rows_of(v, shared[head]),
                )
                for head in range(4)
            ]
        )
    return pairs


def dense_spectrum(product: torch.Tensor) -> np.ndarray:
    """The four singular values of a head's product, in double precision."""
    return torch.linalg.svd(product.detach().double()).S[:4].numpy()
