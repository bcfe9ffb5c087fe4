"""The interface of losses: a value and a velocity of the weights."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax
from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.checks import FloatArray

if TYPE_CHECKING:
    from saddlescope.attention import AbstractAttention, AbstractLinearAttention


@dataclass(frozen=True)
class Force:
    """The force on the coefficients of a model, which moves its weights."""

    value: Array
    """As `pull_back` takes it."""
    response: Callable[[Array], Array]
    """How it changes with the coefficients, which is linear."""
    pull_back: Callable[[Weights, Array], Weights]
    """The velocity of weights at a force."""


class AbstractRisk(eqx.Module):
    """A loss of a model's weights, with its velocity."""

    gain: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        """The loss of a model's weights."""

    def velocity(self, model: AbstractAttention, weights: Weights, rate: Array) -> Weights:
        r"""$-\frac12\partial L/\partial w$ for every weight, times `rate`; here by autodiff."""
        slope = jax.grad(lambda at: self.loss(model, at))(weights)
        return {name: (-0.5 * rate) * slope[name] for name in weights}

    def force(self, model: AbstractAttention, weights: Weights, rate: Array) -> Force | None:
        """The force on a model's coefficients, times `rate`; None if the loss needs more."""
        return None

    def best_map(self, capacity: int) -> FloatArray | None:
        """The map of least loss among those of rank `capacity`, [D, D]; None if unknown."""
        return None

    def padded(self, dimension: int) -> AbstractRisk | None:
        """The same loss in more dimensions, which have no power; None where there is none.

        There is none where it would be another loss, or much dearer.
        """
        return None

    def felt_dimensions(self) -> int | None:
        """How many dimensions come before the last ones that have no power; None if not known.

        No weight of those moves, nor does any other weight feel it.
        """
        return None

    def trimmed(self, dimension: int) -> AbstractRisk:
        """The same loss without the trailing dimensions of no power."""
        raise NotImplementedError


class AbstractMapRisk(AbstractRisk):
    r"""A loss of the coefficients $W$ (or θ, T5) and its force $-\frac12\partial L/\partial W$."""

    @abc.abstractmethod
    def map_loss(self, effective_map: Array) -> Float[Array, ""]:
        """The loss at an effective map."""

    @abc.abstractmethod
    def map_force(self, effective_map: Array) -> Array:
        """Minus half the gradient of the loss with respect to the effective map."""

    def loss(self, model: AbstractLinearAttention, weights: Weights) -> Float[Array, ""]:  # type: ignore[override]
        return self.map_loss(model.coefficients(weights, self.gain))

    def velocity(self, model: AbstractLinearAttention, weights: Weights, rate: Array) -> Weights:  # type: ignore[override]
        # The rate multiplies the small force rather than the weights' velocities: XLA then keeps
        # a whole step in one loop (measured: 9 µs a step of the flow against 15).
        force = self.map_force(model.coefficients(weights, self.gain))
        return model.pull_back(weights, (rate * self.gain) * force)

    def force(self, model: AbstractLinearAttention, weights: Weights, rate: Array) -> Force:  # type: ignore[override]
        def at(coefficients: Array) -> Array:
            return (rate * self.gain) * self.map_force(self.gain * coefficients)

        value, response = jax.linearize(at, model.coefficients(weights))
        return Force(value, response, model.pull_back)


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and the basis of its coordinates."""

    risk: AbstractRisk
    basis: FloatArray | None = None
    """[D, D], as columns; None where the coordinates are the user's own."""
