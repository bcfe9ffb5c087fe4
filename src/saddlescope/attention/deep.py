r"""Several layers of attention with residuals, all blocks of value, key and query trained.

The tokens of a prompt are $(x_n; y_n)$, the query's with label 0. A layer adds
$\sum_i V_i X a(X^\top K_i X)$ to them, and the prediction is the query's label slot after the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float

from saddlescope.arrays import Array, Weights, namespace
from saddlescope.attention.base import AbstractAttention
from saddlescope.attention.formulas.query_row import attended, hidden_labels, softmax
from saddlescope.checks import whole_number
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.task import Prompts


@kind("model", "deep")
@dataclass(frozen=True)
class DeepAttention(AbstractAttention):
    r"""`layers` of attention with `heads` heads each; merged where `rank` is None.

    Weights `value[L, H, D+1, D+1]` (rows are written to, columns are read) and
    `key_query[L, H, D+1, D+1]` (rows meet the attended token, columns the attending one), or
    `key`, `query[L, H, R, D+1]` with $K_i = \sum_r k_{i,r} q_{i,r}^\top$. Linear attention is
    divided by each prompt's own N; `softmax` is taken over the context with
    `normalisation="context"`, over the query too with `"none"`. All tokens attend in every layer
    but the last, where the query alone does.

    At a start of scale w the entries that reduced attention has, v and U or k and q, are drawn as
    the papers draw them (section 0), and all others of the same weight alike. One layer is
    `MergedAttention` or `SeparateAttention` with full blocks (T5): the value's last row is
    $(\nu, v)$, $K_i$ has U and below it the row u, the key is $(k, \kappa)$.

    - `layers`: L, the number of layers.
    - `rank`: R, the key–query pairs of a head; none where key and query are merged.

    >>> DeepAttention(layers=3, heads=2).shapes(4)
    {'value': (3, 2, 5, 5), 'key_query': (3, 2, 5, 5)}
    """

    layers: int
    heads: int
    rank: int | None = None
    activation: str = "linear"
    normalisation: str = "context"
    softmax_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("layers", self.layers)
        if self.rank is not None:
            whole_number("rank", self.rank)

    @property
    def degree(self) -> int:
        return 2 if self.rank is None else 3

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        value = ("layer", "head", "written_dim", "token_dim")
        if self.rank is None:
            merged = ("layer", "head", "token_dim", "query_token_dim")
            return {"value": value, "key_query": merged}
        pairs = ("layer", "head", "rank", "token_dim")
        return {"value": value, "key": pairs, "query": pairs}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        heads, token = (self.layers, self.heads), dimension + 1
        value = (*heads, token, token)
        if self.rank is None:
            return {"value": value, "key_query": value}
        pairs = (*heads, self.rank, token)
        return {"value": value, "key": pairs, "query": pairs}

    def deviations(self, dimension: int) -> dict[str, float]:
        value = self.heads**-0.5
        if self.rank is None:
            return {"value": value, "key_query": value / dimension}
        entry = (self.heads * self.rank * dimension) ** -0.5
        return {"value": value, "key": entry, "query": entry}

    def conserved(self, weights: Weights) -> Weights:
        """As in one layer (T14): each linear one is linear in the products of its weights."""
        if self.activation == "softmax":
            return {}
        if self.rank is None:
            value, keys = (
                weights[name].reshape(self.layers, self.heads, -1)
                for name in ("value", "key_query")
            )
            return {"value_balance": value @ value.swapaxes(1, 2) - keys @ keys.swapaxes(1, 2)}
        keys, queries = ((weights[name] ** 2).sum(-1) for name in ("key", "query"))
        return {
            "key_query_balance": keys - queries,
            "key_value_balance": keys.sum(-1) - (weights["value"] ** 2).sum((-2, -1)),
        }

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        if self.activation == "softmax":
            return {}
        if self.rank is None:
            return {"value_balance": ("layer", "head", "other_head")}
        heads = ("layer", "head")
        return {"key_query_balance": (*heads, "rank"), "key_value_balance": heads}

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        value = weights["value"]
        if self.rank is None:
            key_query = weights["key_query"]
        else:
            key_query = weights["key"].swapaxes(-1, -2) @ weights["query"]
        labels = hidden_labels(prompts)[:, :, None]
        tokens = namespace(prompts.x).concatenate([prompts.x, labels], axis=2)
        for layer in range(self.layers - 1):
            change = self._attend(value[layer], key_query[layer], tokens, tokens, prompts, gain)
            tokens = tokens + change
        # Of the last layer only what is written to the query's label slot is ever read.
        query = tokens[:, -1:]
        change = self._attend(value[-1][:, -1:], key_query[-1], tokens, query, prompts, gain)
        return tokens[:, -1, -1] + change[:, 0, 0]

    def _attend(
        self,
        value: Float[Array, "H W T"],
        key_query: Float[Array, "H T T"],
        tokens: Float[Array, "P M T"],
        attending: Float[Array, "P A T"],
        prompts: Prompts,
        gain: Array,
    ) -> Float[Array, "P A W"]:
        """What the heads of one layer write to the attending tokens."""
        xp = namespace(value, tokens)
        if self.activation == "linear":
            # V X (XᵀK X) = V (X Xᵀ) K X: no table of scores. Tokens beyond a prompt's own length
            # are zero, add nothing to X Xᵀ and stay zero.
            moment = tokens.swapaxes(1, 2) @ tokens / prompts.lengths[:, None, None]
            read = xp.einsum("hwt,pts->phws", value, moment)
            mapped = gain * xp.einsum("phws,hsu->pwu", read, key_query)
            return attending @ mapped.swapaxes(1, 2)
        directions = xp.einsum("hst,pat->phas", key_query, attending)
        scores = self.softmax_scale * xp.einsum("phas,pms->pham", directions, tokens)
        present = attended(prompts, include_query=self.normalisation == "none")
        attention = softmax(scores, present[:, None, None, :])
        read = xp.einsum("pham,pmt->phat", attention, tokens)
        return xp.einsum("hwt,phat->paw", value, read)
