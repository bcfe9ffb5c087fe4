"""AdamW with a warm-up and a cool-down."""

from __future__ import annotations

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree, Shaped

from saddlescope.checks import number, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.transformer._decoder import Weights

Scalar = float | Float[Array, ""]
"""A number, or the array that stands for it in compiled code."""
Moments: TypeAlias = PyTree[Shaped[Array, "..."]]
"""What Adam remembers of the gradients."""


@kind("value", "adamw")
class AdamW(eqx.Module):
    """Adam with decoupled decay of every weight (Loshchilov and Hutter 2019).

    The learning rate rises linearly over the first `warmup` steps, stays, and falls linearly to 0
    over the last `cooldown` steps; none by default.

    >>> AdamW(learning_rate=1e-3, weight_decay=1, betas=(.9, .98), warmup=10).betas
    (0.9, 0.98)
    """

    learning_rate: Scalar
    weight_decay: Scalar
    betas: tuple[Scalar, Scalar]
    warmup: Scalar
    cooldown: Scalar

    def __init__(
        self,
        learning_rate: object = 3e-3,
        weight_decay: object = 0.0,
        betas: object = (0.9, 0.99),
        warmup: object = 50,
        cooldown: object = 0,
    ) -> None:
        self.learning_rate = number("learning_rate", learning_rate, above=0)
        self.weight_decay = number("weight_decay", weight_decay, at_least=0)
        given = np.asarray(betas)
        if given.shape != (2,):
            raise InvalidInput("betas", betas, "must be two numbers")
        first, second = (number("betas", beta, at_least=0) for beta in given.tolist())
        if max(first, second) >= 1:
            raise InvalidInput("betas", betas, "must be below 1")
        self.betas = (first, second)
        self.warmup = whole_number("warmup", warmup, at_least=0)
        self.cooldown = whole_number("cooldown", cooldown, at_least=0)

    def traced(self) -> AdamW:
        """The same with arrays for numbers, so that other values need no recompilation."""
        return jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), self)

    def begin(self, weights: Weights) -> Moments:
        """The moments before the first step."""
        return self._directions().init(weights)

    def update(
        self,
        gradient: Weights,
        moments: Moments,
        weights: Weights,
        step: Int[Array, ""],
        steps: Int[Array, ""],
    ) -> tuple[Weights, Moments]:
        """The weights and the moments after step number `step` of `steps`, counted from 0."""
        # optax raises a float to the power of its whole count, which strict promotion refuses.
        with jax.numpy_dtype_promotion("standard"):
            directions, moments = self._directions().update(gradient, moments, weights)
        risen = (step + 1).astype(jnp.float32) / jnp.maximum(self.warmup, 1.0)
        left = (steps - step).astype(jnp.float32) / jnp.maximum(self.cooldown, 1.0)
        rate = -self.learning_rate * jnp.minimum(jnp.minimum(risen, left), 1.0)
        changes = {name: rate * direction for name, direction in directions.items()}
        return optax.apply_updates(weights, changes), moments

    def _directions(self) -> optax.GradientTransformation:
        first, second = self.betas
        return optax.chain(
            optax.scale_by_adam(b1=first, b2=second), optax.add_decayed_weights(self.weight_decay)
        )
