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
    """Whether the query is among the tokens of a softmax; it always is of linear attention."""


def query_row(
    prompts: Prompts,
    directions: Float[Array, "P T H"],
    values: Float[Array, "H T"],
    options: RowOptions,
) -> Float[Array, " P"]:
    r"""The prediction of each prompt, of $(g_i, h_i)$ as columns and $(\nu_i, v_i)$ as rows."""
    labels, xp = hidden_labels(prompts), namespace(directions, prompts.x)
    tokens = xp.concatenate([prompts.x, labels[:, :, None]], axis=2)
    if options.softmax_scale is not None:
        from saddlescope.attention.formulas.softmax_row import softmax_row

        present = attended(prompts, options.include_query)
        return softmax_row(tokens, present, options.softmax_scale * directions, values)
    attention = tokens @ directions / prompts.lengths[:, None, None]
    read = tokens.swapaxes(1, 2) @ attention
    return (read * values.T[None]).sum((1, 2))


def with_label(inputs: Float[Array, "*S D"], label: Float[Array, "*S"] | None) -> Array:
    """Coefficients of a token's inputs, then the one of its label: zero where that is None."""
    xp = namespace(inputs)
    last = xp.zeros_like(inputs[..., 0]) if label is None else label
    return xp.concatenate([inputs, last[..., None]], axis=-1)


def hidden_labels(prompts: Prompts) -> Float[Array, "P M"]:
    """The labels as the model sees them: 0 for the query."""
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
