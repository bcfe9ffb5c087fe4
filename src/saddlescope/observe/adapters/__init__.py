"""One small module for each family of models, and the list of known families.

A family of your own takes five lines; the first adapter that finds layers reads the model:

>>> from saddlescope.observe import Projections, adapters
>>> mine = adapters.register(
...     Projections("mine", "att.q", "att.k", "att.v", "att.o", heads=8, norm="norm1")
... )
>>> adapters.known()[0].name
'mine'
>>> adapters.unregister("mine")

Weights that are fused or laid out in another way take a class that follows `AbstractAdapter`: which
layers there are, and the four weights of one.
"""

from __future__ import annotations

from saddlescope.errors import InvalidInput
from saddlescope.observe.adapters.base import AbstractAdapter, AttentionLayer
from saddlescope.observe.adapters.decoder import OwnDecoder
from saddlescope.observe.adapters.gpt2 import GPT2
from saddlescope.observe.adapters.gpt_neox import GPTNeoX
from saddlescope.observe.adapters.llama import LLAMA
from saddlescope.observe.adapters.multihead import MultiheadAttention
from saddlescope.observe.adapters.projections import Projections
from saddlescope.observe.adapters.transformer_lens import TransformerLens
from saddlescope.observe.weights import AbstractWeights

__all__ = [
    "AbstractAdapter",
    "AttentionLayer",
    "Projections",
    "chosen",
    "find",
    "known",
    "register",
    "unregister",
]

_known: list[AbstractAdapter] = [
    GPT2(),
    GPTNeoX(),
    LLAMA,
    TransformerLens(),
    OwnDecoder(),
    MultiheadAttention(),
]


def known() -> tuple[AbstractAdapter, ...]:
    """All adapters, in the order in which they are tried."""
    return tuple(_known)


def register(adapter: AbstractAdapter) -> AbstractAdapter:
    """Register an adapter ahead of all others; one of the same name is replaced."""
    if not isinstance(adapter, AbstractAdapter):
        raise InvalidInput("adapter", adapter, "must follow saddlescope.observe.AbstractAdapter")
    unregister(adapter.name)
    _known.insert(0, adapter)
    return adapter


def unregister(name: str) -> None:
    """Forget the adapter of this name, if there is one."""
    _known[:] = [one for one in _known if one.name != name]


def chosen(adapter: object) -> tuple[AbstractAdapter, ...]:
    """The adapters to try: the one given or named, or all for None."""
    by_name = {one.name: one for one in _known}
    if adapter is None:
        return known()
    if isinstance(adapter, AbstractAdapter):
        return (adapter,)
    if isinstance(adapter, str) and adapter in by_name:
        return (by_name[adapter],)
    raise InvalidInput("adapter", adapter, f"must be an adapter or one of {', '.join(by_name)}")


def find(weights: AbstractWeights, adapter: object = None) -> tuple[AbstractAdapter, list[str]]:
    """The adapter that finds attention layers, and their names; `adapter` or its name chooses."""
    choices = chosen(adapter)
    for one in choices:
        if layers := one.layers(weights):
            return one, layers
    tried = ", ".join(one.name for one in choices)
    allowed = f"must have attention layers of a known family ({tried}): name yours in an adapter"
    raise InvalidInput("weights", sorted(weights.names)[:3], allowed)
