"""The interface of adapters: find a family's attention layers, and read them as circuits."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from saddlescope.measure import Circuits, circuits
from saddlescope.observe.weights import AbstractWeights, natural

if TYPE_CHECKING:
    from torch import Tensor

ROTARY = "rotary positions turn queries and keys: QK is that of a query and a key at one position"
BIASES = "QK acts on (x; 1) with the biases of queries and keys; those of values are no part of OV"
HEAD_NORMS = "queries and keys are normalised in each head, which no bilinear form holds: QK is "
HEAD_NORMS += "that of the projections alone"
NO_NORM = "the norm in front of attention is not found: nothing is folded in"


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """The attention of one layer, as `saddlescope.measure.circuits` takes it.

    - `W_Q[head, d_head, d_model]`, `W_K` and `W_V` alike (fewer heads where queries are grouped),
      `W_O[head, d_model, d_head]`; biases `b_Q[head, d_head]` …, `b_O[d_model]`.
    - `gain`, `norm_bias` [d_model]: of the normalisation in front.
    - `notes`: what a reader of the measures must know, each a sentence.

    `b_K` and `b_V` are shaped as `b_Q`; `rotary` says that scores depend on positions.

    >>> import saddlescope as ss
    >>> import torch
    >>> W = torch.eye(4).reshape(2, 2, 4)
    >>> layer = ss.observe.AttentionLayer(W_Q=W, W_K=W, W_V=W, W_O=W.mT)
    >>> layer.W_Q.shape
    torch.Size([2, 2, 4])
    """

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    b_Q: Tensor | None = None
    b_K: Tensor | None = None
    b_V: Tensor | None = None
    b_O: Tensor | None = None
    gain: Tensor | None = None
    norm_bias: Tensor | None = None
    rotary: bool = False
    notes: tuple[str, ...] = ()

    def circuits(self, *, fold_norms: bool) -> Circuits:
        """The circuits of its heads; `fold_norms` folds the norm's gain and bias into them."""
        return circuits(
            self.W_Q,
            self.W_K,
            self.W_V,
            self.W_O,
            b_Q=self.b_Q,
            b_K=self.b_K,
            b_V=self.b_V,
            b_O=self.b_O,
            gain=self.gain if fold_norms else None,
            norm_bias=self.norm_bias if fold_norms else None,
            rotary=self.rotary,
        )

    def remarks(self, *, fold_norms: bool) -> tuple[str, ...]:
        """What a reader of the measures must know."""
        known = list(self.notes)
        if self.rotary:
            known.append(ROTARY)
        if self.b_Q is not None or self.b_K is not None:
            known.append(BIASES)
        if fold_norms and self.gain is None:
            known.append(NO_NORM)
        return tuple(known)


class AbstractAdapter(abc.ABC):
    """One family of models: how to find its attention layers, and how to read one.

    >>> import saddlescope as ss
    >>> [adapter.name for adapter in ss.observe.adapters.known()][:3]
    ['gpt2', 'gpt_neox', 'llama']
    """

    name: str
    """What the family is called."""

    @abc.abstractmethod
    def layers(self, weights: AbstractWeights) -> list[str]:
        """The names of the layers in order, none where the weights are not of this family."""

    @abc.abstractmethod
    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One layer."""


def layers_with(weights: AbstractWeights, suffix: str) -> list[str]:
    """The layers whose weights include one of this suffix, in natural order."""
    found = (name for name in weights.names if name == suffix[1:] or name.endswith(suffix))
    return sorted((name[: -len(suffix)] for name in found), key=natural)


def under(layer: str, name: str) -> str:
    """The name of what belongs to a layer, which may be the whole model."""
    return f"{layer}.{name}" if layer else name
