"""The population loss as a function of all weights in one vector, and its second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray
from saddlescope.task.moments import population_loss
from saddlescope.theory.parametrisation import (
    GivenWeights,
    one_seed,
    population_law,
    summarised_model,
)


@dataclass(frozen=True, eq=False)
class WeightLoss:
    """The population loss (T3) as a function of all weights of a model in one vector."""

    model: AbstractAttention
    dimension: int
    vector: Float[np.ndarray, " n"]
    """The weights where it is looked at, in the order of `model.shapes`, each in C order."""
    numbers: tuple[float | FloatArray, ...]
    """The gain, and the moments of the task."""

    @classmethod
    def at(cls, model: AbstractAttention, task: object, weights: GivenWeights) -> WeightLoss:
        """At the weights of one seed."""
        law = population_law(task)
        checked = one_seed(summarised_model(model), weights, law.dimension)
        moments = law.moments()
        return cls(
            model,
            law.dimension,
            np.concatenate([checked[name].ravel() for name in model.shapes(law.dimension)]),
            (
                model.gain(law.fixed_length),
                moments.label_power,
                moments.drive,
                moments.summary,
                moments.query,
            ),
        )

    def hessian(self) -> Float[np.ndarray, "n n"]:
        """All second derivatives."""
        matrix: FloatArray = _second_derivative(self.model, self.dimension)(
            self.vector, *self.numbers
        )
        return matrix

    def hessian_times(self, direction: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Those along a direction."""
        product: FloatArray = _second_derivative_along(self.model, self.dimension)(
            direction, self.vector, *self.numbers
        )
        return product


def named_weights(model: AbstractAttention, dimension: int, vector: Array) -> Weights:
    """The parts of one vector of all weights, by their names."""
    weights, start = {}, 0
    for name, shape in model.shapes(dimension).items():
        end = start + int(np.prod(shape))
        weights[name] = vector[start:end].reshape(shape)
        start = end
    return weights


@lru_cache(maxsize=64)
def _second_derivative(model: AbstractAttention, dimension: int) -> Callable[..., FloatArray]:
    # JAX takes a second to import, and only these functions of the landscape need it.
    import jax

    from saddlescope.precision import in_float64

    return in_float64(jax.jit(jax.hessian(_loss(model, dimension))))


@lru_cache(maxsize=64)
def _second_derivative_along(model: AbstractAttention, dimension: int) -> Callable[..., FloatArray]:
    import jax

    from saddlescope.precision import in_float64

    gradient = jax.grad(_loss(model, dimension))

    def along(direction: Array, vector: Array, *numbers: Array) -> Array:
        return jax.jvp(lambda at: gradient(at, *numbers), (vector,), (direction,))[1]

    return in_float64(jax.jit(along))


def _loss(model: AbstractAttention, dimension: int) -> Callable[..., Array]:
    linear = summarised_model(model)

    def loss(
        vector: Array, gain: Array, power: Array, drive: Array, summary: Array, query: Array
    ) -> Array:
        weights = named_weights(model, dimension, vector)
        return population_loss(linear.effective_map(weights, gain), power, drive, summary, query)

    return loss
