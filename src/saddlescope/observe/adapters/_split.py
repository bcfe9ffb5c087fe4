"""Weights of all heads, and their biases, split by heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor


def inward(weight: Tensor, heads: int) -> Tensor:
    """A projection [head × d_head, d_model] by heads: [head, d_head, d_model]."""
    return weight.reshape(_even(weight, heads), -1, weight.shape[-1])


def outward(weight: Tensor, heads: int) -> Tensor:
    """A projection [d_model, head × d_head] by heads: [head, d_model, d_head]."""
    return inward(weight.mT, heads).mT


def by_heads(bias: Tensor | None, heads: int) -> Tensor | None:
    """A bias [head × d_head] by heads, where there is one."""
    return None if bias is None else bias.reshape(_even(bias, heads), -1)


def fused_biases(bias: Tensor | None, heads: int) -> tuple[Tensor | None, ...]:
    """A bias of queries, keys and values one after another: each by heads."""
    parts = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(by_heads(part, heads) for part in parts)


def _even(weight: Tensor, heads: int) -> int:
    if weight.shape[0] % heads:
        allowed = f"must divide the {weight.shape[0]} rows of a projection"
        raise InvalidInput("heads", heads, allowed)
    return heads
