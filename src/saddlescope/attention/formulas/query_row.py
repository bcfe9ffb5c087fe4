r"""The query's row of attention, the only one that reaches the prediction: O(N) a prompt.

Head i scores token $(x_n, y_n)$ by $x_n^\top g_i + y_n h_i$ with $g_i = U_i x_q$ and
$h_i = u_i^\top x_q$, and adds $a_n (\nu_i^\top x_n + v_i y_n)$ to the prediction, where $a$ are the
scores divided by N (linear) or their softmax. The query is a token too, with label 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Bool, Float

from saddlescope.arrays import Array, namespace

if TYPE_CHECKING:
    from saddlescope.task import Prompts


@dataclass(frozen=True)
class RowOptions:
    """How the query's row is weighted."""

    softmax_scale: float | None
    """None for linear attention."""
    include_query: bool
    """Whether the query attends to itself too."""


def query_row(
    prompts: Prompts,
    directions: Float[Array, "P H D"],
    label_directions: Float[Array, "P H"] | None,
    values: Float[Array, " H"],
    input_values: Float[Array, "H D"] | None,
    options: RowOptions,
) -> Float[Array, " P"]:
    """The prediction of each prompt; directions and values that are None are zero."""
    labels = hidden_labels(prompts)
    scores = directions @ prompts.x.swapaxes(1, 2)
    if label_directions is not None:
        scores = scores + label_directions[:, :, None] * labels[:, None, :]
    if options.softmax_scale is None:
        attention = scores / prompts.lengths[:, None, None]
        if not options.include_query:
            attention = attention[..., :-1]
    else:
        present = attended(prompts, options.include_query)[:, None, :]
        attention = softmax(options.softmax_scale * scores, present)
    tokens = attention.shape[-1]
    on_labels = (attention * labels[:, None, :tokens]).sum(-1)
    heads = values[None] * on_labels
    if input_values is not None:
        heads = heads + (input_values[None] * (attention @ prompts.x[:, :tokens])).sum(-1)
    return heads.sum(-1)


def hidden_labels(prompts: Prompts) -> Float[Array, "P M"]:
    """The labels as the model sees them: 0 in the query's place."""
    hidden = namespace(prompts.y).zeros_like(prompts.y[:, -1:])
    return namespace(prompts.y).concatenate([prompts.y[:, :-1], hidden], axis=1)


def attended(prompts: Prompts, include_query: bool) -> Bool[Array, "P M"]:
    """The tokens that a softmax is taken over: a prompt's own context, and perhaps the query."""
    index = namespace(prompts.x).arange(prompts.context_length + 1)[None, :]
    present = index < prompts.lengths[:, None].astype(index.dtype)
    return present | (index == prompts.context_length) if include_query else present


def softmax(scores: Float[Array, "*S M"], present: Bool[Array, "*T M"]) -> Float[Array, "*S M"]:
    """The softmax over the tokens that are present."""
    import jax

    return jax.nn.softmax(jax.numpy.where(present, scores, -jax.numpy.inf), axis=-1)
