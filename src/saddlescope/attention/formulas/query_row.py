r"""The query's row of attention, the only one that reaches the prediction: O(N) a prompt.

Head i scores token $(x_n, y_n)$ by $x_n^\top g_i + y_n h_i$ with $g_i = U_i x_q$ and
$h_i = u_i^\top x_q$, and adds $a_n (\nu_i^\top x_n + v_i y_n)$ to the prediction, where $a$ are the
scores divided by N (linear) or their softmax. The query is a token too, with label 0.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from saddlescope.attention.base import Array


def query_row(
    prompts: Any,
    directions: Float[Array, "P H D"],
    label_directions: Float[Array, "P H"],
    values: Float[Array, " H"],
    input_values: Float[Array, "H D"],
    *,
    softmax_scale: float | None,
    include_query: bool,
) -> Float[Array, " P"]:
    """The prediction of each prompt; linear where `softmax_scale` is None.

    `prompts` has `x[P, N+1, D]`, `y[P, N+1]` and `lengths[P]`.
    """
    labels = jnp.concatenate([prompts.y[:, :-1], jnp.zeros_like(prompts.y[:, -1:])], axis=1)
    scores = directions @ prompts.x.swapaxes(1, 2)
    scores = scores + label_directions[:, :, None] * labels[:, None, :]
    if softmax_scale is None:
        attention = scores / prompts.lengths[:, None, None]
        if not include_query:
            attention = attention[..., :-1]
    else:
        attention = _softmax(softmax_scale * scores, prompts, include_query)
    tokens = attention.shape[-1]
    on_labels = (attention * labels[:, None, :tokens]).sum(-1)
    on_inputs = attention @ prompts.x[:, :tokens]
    heads = values[None] * on_labels + (input_values[None] * on_inputs).sum(-1)
    return heads.sum(-1)


def _softmax(scores: Float[Array, "P H M"], prompts: Any, include_query: bool) -> Array:
    """Over each prompt's own context, and the query where it is included."""
    last = scores.shape[-1] - 1
    place = jnp.arange(last + 1)[None, :]
    present = place < prompts.lengths[:, None].astype(place.dtype)
    if include_query:
        present = present | (place == last)
    return jax.nn.softmax(jnp.where(present[:, None, :], scores, -jnp.inf), axis=-1)
