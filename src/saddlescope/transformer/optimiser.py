"""AdamW with a warm-up."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from saddlescope.checks import number, whole_number
from saddlescope.errors import InvalidInput


class AdamW(eqx.Module):
    """Adam with decoupled decay of every weight (Loshchilov and Hutter 2019).

    The learning rate rises linearly over the first `warmup` steps and then stays.

    >>> AdamW(learning_rate=1e-3, weight_decay=1, betas=(.9, .98), warmup=10).betas
    (0.9, 0.98)
    """

    learning_rate: Any
    weight_decay: Any
    betas: Any
    warmup: Any

    def __init__(
        self,
        learning_rate: Any = 3e-3,
        weight_decay: Any = 0.0,
        betas: Any = (0.9, 0.99),
        warmup: Any = 50,
    ) -> None:
        self.learning_rate = number("learning_rate", learning_rate, above=0)
        self.weight_decay = number("weight_decay", weight_decay, at_least=0)
        if np.shape(betas) != (2,):
            raise InvalidInput("betas", betas, "must be two numbers")
        self.betas = tuple(number("betas", beta, at_least=0) for beta in betas)
        if max(self.betas) >= 1:
            raise InvalidInput("betas", betas, "must be below 1")
        self.warmup = whole_number("warmup", warmup, at_least=0)

    def traced(self) -> AdamW:
        """The same with arrays for numbers: nothing is compiled anew for other ones."""
        return jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), self)

    def begin(self, weights: Any) -> Any:
        """The moments before the first step."""
        return self._directions().init(weights)

    def update(self, gradient: Any, moments: Any, weights: Any, step: Any) -> Any:
        """The weights and the moments after step number `step`, counted from 0."""
        # optax raises a float to the power of its whole count, which strict promotion refuses.
        with jax.numpy_dtype_promotion("standard"):
            directions, moments = self._directions().update(gradient, moments, weights)
        risen = jnp.minimum((step + 1).astype(jnp.float32) / jnp.maximum(self.warmup, 1.0), 1.0)
        rate = -self.learning_rate * risen
        changes = {name: rate * direction for name, direction in directions.items()}
        return optax.apply_updates(weights, changes), moments

    def _directions(self) -> Any:
        first, second = self.betas
        return optax.chain(
            optax.scale_by_adam(b1=first, b2=second),
            optax.add_decayed_weights(self.weight_decay),
        )
