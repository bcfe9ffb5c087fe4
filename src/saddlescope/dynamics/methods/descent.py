"""Gradient descent: on the exact loss, on fresh prompts, or by any optax optimiser."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from saddlescope.attention.base import Weights
from saddlescope.checks import AnyArray, FloatArray, check_share, number, whole_number
from saddlescope.dynamics.methods.base import AbstractMethod, Problem
from saddlescope.dynamics.methods.stepping import (
    AbstractStep,
    StepState,
    advance_steps,
    begin_steps,
    stable_rate,
    step_of_overflow,
)
from saddlescope.dynamics.risk import PromptRisk
from saddlescope.errors import InvalidInput
from saddlescope.setting import Opaque


class AbstractDescent(AbstractMethod):
    """A method that goes step by step."""

    steps: int

    @abc.abstractmethod
    def make_step(self, problem: Problem) -> AbstractStep:
        """What one step does."""

    @property
    def end(self) -> float:
        return float(self.steps)

    @property
    def counts_steps(self) -> bool:
        return True

    def begin(self, problem: Problem, weights: Float[Array, "S n"]) -> StepState:
        return begin_steps(problem, self.make_step(problem), weights)

    def go_on(self, problem: Problem, state: StepState) -> StepState:
        return self.begin(problem, state.records.last)

    def advance(self, problem: Problem, state: StepState, budget: int) -> tuple[StepState, int]:
        moved, taken = advance_steps(problem, self.make_step(problem), state, jnp.asarray(budget))
        return moved, int(taken)

    def clock(self, state: StepState) -> AnyArray:
        return np.asarray(state.step)

    def failure(self, problem: Problem, state: StepState, seed: int) -> str:
        step = step_of_overflow(problem, self.make_step(problem), state, seed)
        return f"diverged at step {step}; try {self._cure(problem, state, seed)}"

    def _cure(self, problem: Problem, state: StepState, seed: int) -> str:
        rate = getattr(self, "learning_rate", np.inf) / 2
        rate = min(rate, stable_rate(problem, state, seed))
        return f"learning_rate {rate:.2g}" if np.isfinite(rate) else "a smaller learning rate"


@dataclass(frozen=True)
class GradientDescent(AbstractDescent):
    r"""Gradient descent $w \leftarrow w - \eta\,\partial L/\partial w$ for a number of `steps`.

    One step is $2\eta$ of flow time (section 0). `converged` as in `GradientFlow`.

    >>> GradientDescent(learning_rate=.02, steps=10_000).flow_time(np.array([10_000]), 1.0)
    array([400.])
    """

    learning_rate: float
    steps: int
    converged: float | None = None

    def __post_init__(self) -> None:
        _check(self, "learning_rate", "converged")

    def shortened(self, end: float) -> GradientDescent:
        return replace(self, steps=int(end), converged=None)

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return 2 * self.learning_rate * unit * np.asarray(clock, dtype=np.float64)

    def make_step(self, problem: Problem) -> AbstractStep:
        return _GradientStep(jnp.asarray(self.learning_rate))


@dataclass(frozen=True)
class StochasticGradientDescent(AbstractDescent):
    r"""Gradient descent on `batch_size` freshly drawn prompts a step.

    On a law every step draws new prompts, on `Prompts` it draws rows of them. The recorded loss is
    the exact one where it is known, else that on a fixed set of probe prompts. Seed s of an
    ensemble draws prompts of its own, from s and `key`.
    """

    learning_rate: float
    steps: int
    batch_size: int = 256
    key: int = 0

    def __post_init__(self) -> None:
        _check(self, "learning_rate")

    @property
    def converged(self) -> None:  # type: ignore[override]
        return None

    @property
    def is_stochastic(self) -> bool:
        return True

    def shortened(self, end: float) -> StochasticGradientDescent:
        raise InvalidInput("method", self, "a stochastic run cannot be followed again")

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return 2 * self.learning_rate * unit * np.asarray(clock, dtype=np.float64)

    def make_step(self, problem: Problem) -> AbstractStep:
        key = jax.random.key_data(jax.random.key(self.key))
        inner = _GradientStep(jnp.asarray(self.learning_rate))
        return _FreshStep(inner, key, self.batch_size)


@dataclass(frozen=True)
class Optimiser(AbstractDescent):
    """Any optax optimiser, by itself or by its name in optax with a learning rate.

    Full-batch on the exact loss, or on `batch_size` fresh prompts a step. The unit of time is the
    step: flow time has no meaning, and times are not predicted.

    >>> Optimiser("adam", steps=1000, learning_rate=1e-3).transform.init is not None
    True
    """

    optimiser: Any
    steps: int
    learning_rate: float | None = None
    batch_size: int | None = None
    key: int = 0
    converged: float | None = None

    def __post_init__(self) -> None:
        _check(self, *[f for f in ("learning_rate", "converged") if getattr(self, f) is not None])
        if not isinstance(self.optimiser, str | Opaque | optax.GradientTransformation):
            raise InvalidInput("optimiser", self.optimiser, "must be an optax optimiser or a name")
        if isinstance(self.optimiser, str):
            known = getattr(optax, self.optimiser, None)
            if not callable(known):
                raise InvalidInput("optimiser", self.optimiser, "is not a name in optax")
            if self.learning_rate is None:
                raise InvalidInput("learning_rate", None, "is needed with an optimiser's name")

    @property
    def transform(self) -> optax.GradientTransformation:
        """The optax transformation."""
        if isinstance(self.optimiser, str):
            return _named_transform(self.optimiser, self.learning_rate)
        if isinstance(self.optimiser, Opaque):
            raise InvalidInput("optimiser", self.optimiser.name, "was not saved; give it again")
        return self.optimiser

    @property
    def is_stochastic(self) -> bool:
        return self.batch_size is not None

    @property
    def has_flow_time(self) -> bool:
        return False

    def shortened(self, end: float) -> Optimiser:
        raise InvalidInput("method", self, "an optimiser with memory cannot be followed again")

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return np.asarray(clock, dtype=np.float64)

    def make_step(self, problem: Problem) -> AbstractStep:
        inner = _OptaxStep(self.transform)
        if self.batch_size is None:
            return inner
        return _FreshStep(inner, jax.random.key_data(jax.random.key(self.key)), self.batch_size)


@cache
def _named_transform(name: str, learning_rate: float | None) -> optax.GradientTransformation:
    # One object for one name and rate: JAX would compile anew for another.
    made: optax.GradientTransformation = getattr(optax, name)(learning_rate)
    return made


class _GradientStep(AbstractStep):
    rate: Any

    def remember(self, weights: Weights, seed: Any) -> Any:
        return ()

    def __call__(self, problem: Problem, weights: Weights, memory: Any, count: Any) -> Any:
        moved = problem.risk.velocity(problem.model, weights, 2 * self.rate)
        return {name: weights[name] + moved[name] for name in weights}, memory


class _OptaxStep(AbstractStep):
    transform: Any = eqx.field(static=True)

    def remember(self, weights: Weights, seed: Any) -> Any:
        return self.transform.init(weights)

    def __call__(self, problem: Problem, weights: Weights, memory: Any, count: Any) -> Any:
        # A velocity of rate −2 is the gradient of the loss.
        slope = problem.risk.velocity(problem.model, weights, -2.0)
        change, memory = self.transform.update(slope, memory, weights)
        return optax.apply_updates(weights, change), memory


class _FreshStep(AbstractStep):
    """Another step, on prompts of its own."""

    inner: AbstractStep
    key: Any
    batch_size: int = eqx.field(static=True)

    def remember(self, weights: Weights, seed: Any) -> Any:
        return seed, self.inner.remember(weights, seed)

    def __call__(self, problem: Problem, weights: Weights, memory: Any, count: Any) -> Any:
        seed, memory = memory
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), seed)
        batch = problem.sampler.draw(jax.random.fold_in(key, count), self.batch_size)
        fresh = replace(problem, risk=PromptRisk(problem.risk.gain, batch))
        weights, memory = self.inner(fresh, weights, memory, count)
        return weights, (seed, memory)


def _check(method: Any, *positive: str) -> None:
    """Validate the fields that step-wise methods share, and settle their types."""
    for field in positive:
        if getattr(method, field) is not None:
            object.__setattr__(method, field, number(field, getattr(method, field), above=0.0))
    check_share("converged", method.converged)
    object.__setattr__(method, "steps", whole_number("steps", method.steps))
    for field in ("batch_size", "key"):
        if getattr(method, field, None) is not None:
            value = whole_number(field, getattr(method, field), at_least=int(field != "key"))
            object.__setattr__(method, field, value)
