"""Kinds of step: along the gradient, by an optax optimiser, on fresh prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import FunctionType

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree, UInt32

from saddlescope.arrays import Weights
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._stepping import AbstractStep
from saddlescope.risk import PromptRisk


class GradientStep(AbstractStep):
    """Gradient descent."""

    rate: Float[Array, " *S"]

    @staticmethod
    def of(rate: float) -> GradientStep:
        """With the rate as an array, so that another rate needs no new compilation."""
        return GradientStep(jax.device_put(rate))

    def init(self, weights: Weights, seed: Int[Array, ""]) -> PyTree[Array]:
        return ()

    def __call__(
        self,
        problem: Problem[AbstractStep],
        weights: Weights,
        memory: PyTree[Array],
        count: Int[Array, ""],
    ) -> tuple[Weights, PyTree[Array]]:
        moved = problem.risk.velocity(problem.model, weights, 2 * self.rate)
        return {name: weights[name] + moved[name] for name in weights}, memory


class OptaxStep(AbstractStep):
    """A step of an optax optimiser."""

    transform: optax.GradientTransformation = eqx.field(static=True)
    rate: Float[Array, " *S"] | None = None
    """Multiplies the update; None where the transformation applies its own rate."""

    @staticmethod
    def of(transform: optax.GradientTransformation, rate: float) -> OptaxStep:
        """With the rate as an array, so that another rate needs no new compilation."""
        return OptaxStep(transform, jax.device_put(rate))

    def init(self, weights: Weights, seed: Int[Array, ""]) -> PyTree[Array]:
        return self.transform.init(weights)

    def __call__(
        self,
        problem: Problem[AbstractStep],
        weights: Weights,
        memory: PyTree[Array],
        count: Int[Array, ""],
    ) -> tuple[Weights, PyTree[Array]]:
        # A velocity of rate −2 is the gradient of the loss.
        slope = problem.risk.velocity(problem.model, weights, -2.0)
        change, memory = self.transform.update(slope, memory, weights)
        if self.rate is not None:
            change = {name: self.rate * change[name] for name in change}
        return optax.apply_updates(weights, change), memory


class FreshStep(AbstractStep):
    """An inner step on freshly drawn prompts."""

    inner: AbstractStep
    key: UInt32[Array, "*S words"]
    batch_size: int = eqx.field(static=True)

    @staticmethod
    def of(inner: AbstractStep, key: int, batch_size: int) -> FreshStep:
        """With `batch_size` prompts a step, drawn from a key."""
        return FreshStep(inner, jax.random.key_data(jax.random.key(key)), batch_size)

    def init(self, weights: Weights, seed: Int[Array, ""]) -> PyTree[Array]:
        return seed, self.inner.init(weights, seed)

    def __call__(
        self,
        problem: Problem[AbstractStep],
        weights: Weights,
        memory: PyTree[Array],
        count: Int[Array, ""],
    ) -> tuple[Weights, PyTree[Array]]:
        assert problem.sampler is not None
        seed, memory = memory
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), seed)
        batch = problem.sampler.draw(jax.random.fold_in(key, count), self.batch_size)
        fresh = replace(problem, risk=PromptRisk(problem.risk.gain, batch))
        weights, memory = self.inner(fresh, weights, memory, count)
        return weights, (seed, memory)


@lru_cache(maxsize=64)
def named_transform(
    name: str, learning_rate: float | None, options: tuple[tuple[str, float], ...]
) -> optax.GradientTransformation:
    """An optimiser by its name in optax."""
    # Cached because JAX would compile again for another, equal object.
    transform: optax.GradientTransformation = getattr(optax, name)(learning_rate, **dict(options))
    return transform


def describe_transform(transform: optax.GradientTransformation) -> str:
    """A fingerprint of a transformation's functions and numbers, the same in every process."""
    parts = [_describe(function) for function in transform]
    name = transform.update.__qualname__.partition(".")[0]
    return f"{name} {hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


def _describe(value: object) -> object:
    """A plain description of a value; of a function, its code and closure."""
    if isinstance(value, FunctionType):
        code = value.__code__
        cells = [_describe(cell.cell_contents) for cell in value.__closure__ or ()]
        defaults = _describe((value.__defaults__, value.__kwdefaults__))
        return value.__module__, value.__qualname__, code.co_code.hex(), cells, defaults
    if isinstance(value, Mapping):
        return sorted((str(name), _describe(item)) for name, item in value.items())
    if isinstance(value, tuple | list):
        return [_describe(item) for item in value]
    if isinstance(value, np.ndarray | jax.Array):
        return str(value.dtype), np.asarray(value).tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return type(value).__module__, type(value).__qualname__
