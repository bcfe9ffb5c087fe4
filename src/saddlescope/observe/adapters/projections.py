"""`Projections`: queries, keys, values and outputs in a linear map each, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from saddlescope.checks import validated, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.observe.adapters import _split as split
from saddlescope.observe.adapters.base import (
    HEAD_NORMS,
    AbstractAdapter,
    AttentionLayer,
    layers_with,
    under,
)
from saddlescope.observe.weights import AbstractWeights

if TYPE_CHECKING:
    from torch import Tensor

_HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head")


@validated
@dataclass(frozen=True)
class Projections(AbstractAdapter):
    """Attention of four linear maps a layer, named after what all of a layer's weights begin with.

    The weights of layer `x` are `x.{query}.weight` and so on, as `torch.nn.Linear` keeps them,
    biases beside them where there are any. Fewer rows of keys and values than of queries are
    grouped queries.

    - `heads`: the number of query heads; None asks the model or its config.
    - `norm`: the normalisation in front, for `fold_norms`.
    - `rotary`: whether positions turn queries and keys; None asks the config.

    `name` is the adapter's; `query`, `key`, `value` and `output` are the names of the four maps
    below a layer.

    >>> Projections("mine", "att.q", "att.k", "att.v", "att.o", heads=8, norm="norm1").name
    'mine'
    """

    name: str
    query: str
    key: str
    value: str
    output: str
    heads: int | None = None
    norm: str | None = None
    rotary: bool | None = None

    def __post_init__(self) -> None:
        for field in ("name", "query", "key", "value", "output"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise InvalidInput(field, getattr(self, field), "must be a name")
        if self.heads is not None:
            vars(self)["heads"] = whole_number("heads", self.heads)

    def layers(self, weights: AbstractWeights) -> list[str]:
        """The layers that have all four maps."""
        rest = (self.key, self.value, self.output)
        return [
            layer
            for layer in layers_with(weights, f".{self.query}.weight")
            if all(under(layer, f"{name}.weight") in weights.names for name in rest)
        ]

    def read(self, weights: AbstractWeights, layer: str) -> AttentionLayer:
        """One layer."""

        def weight(name: str) -> Tensor:
            return weights.read(under(layer, f"{name}.weight"))

        def bias(name: str) -> Tensor | None:
            return weights.find(under(layer, f"{name}.bias"))

        module = under(layer, self.query.rpartition(".")[0])
        heads = self.heads or weights.heads(module, *_HEADS)
        query = split.inward(weight(self.query), heads)
        output = split.outward(weight(self.output), heads)
        key = weight(self.key)
        rows, size = key.shape[0], query.shape[1]
        if rows % size or heads % max(rows // size, 1):
            allowed = f"must divide into heads of {size} rows that {heads} query heads share"
            raise InvalidInput(f"{under(layer, self.key)}.weight.shape[0]", rows, allowed)
        groups = rows // size
        norm = "" if self.norm is None else under(layer, self.norm)
        rotary = self.rotary
        if rotary is None:
            rotary = weights.setting(module, "rope_parameters", "rope_theta") is not None
        has_norms = under(module, "q_norm.weight") in weights.names
        return AttentionLayer(
            query,
            split.inward(key, groups),
            split.inward(weight(self.value), groups),
            output,
            split.by_heads(bias(self.query), heads),
            split.by_heads(bias(self.key), groups),
            split.by_heads(bias(self.value), groups),
            bias(self.output),
            weights.find(f"{norm}.weight"),
            weights.find(f"{norm}.bias"),
            rotary=rotary,
            notes=(HEAD_NORMS,) if has_norms else (),
        )
