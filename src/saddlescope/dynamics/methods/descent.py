"""Gradient descent: on the exact loss, on fresh prompts, or by any optax optimiser."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from saddlescope.arrays import Array
from saddlescope.checks import (
    LARGEST_WHOLE_NUMBER,
    AnyArray,
    FloatArray,
    check_share,
    number,
    one_of,
    whole_number,
)
from saddlescope.dynamics.methods.base import PRECISIONS, AbstractMethod
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

# JAX has 32-bit integers where it computes in float32.
_MOST_STEPS = {False: LARGEST_WHOLE_NUMBER, True: 2**31 - 1}

# Optax optimisers that work weight by weight and whose learning rate multiplies the whole step:
# other rates and padded models can share their program.
_ELEMENTWISE = ("adagrad", "adam", "adamw", "lion", "nadam", "rmsprop", "sgd")

if TYPE_CHECKING:
    import optax

    from saddlescope.attention import AbstractAttention
    from saddlescope.dynamics.methods._layout import Layout
    from saddlescope.dynamics.methods._problem import Problem
    from saddlescope.dynamics.methods._stepping import AbstractStep, StepState


class AbstractDescent(AbstractMethod):
    """A method that takes steps."""

    steps: int

    @abc.abstractmethod
    def make_step(self) -> AbstractStep:
        """One step, with the fields as arrays."""

    @property
    def end(self) -> float:
        return float(self.steps)

    @property
    def counts_steps(self) -> bool:
        return True

    def rule(self, model: AbstractAttention, layout: Layout, group: int) -> AbstractStep:
        return self.make_step()

    def begin(
        self, problem: Problem, seeds: Int[Array, " S"], weights: Float[Array, "S n"]
    ) -> StepState:
        from saddlescope.dynamics.methods import _stepping

        return _stepping.begin(problem, seeds, weights)

    def prolong(  # type: ignore[override]
        self, problem: Problem, seeds: Int[Array, " S"], state: StepState
    ) -> StepState:
        return self.begin(problem, seeds, state.records.last)

    def advance(  # type: ignore[override]
        self, problem: Problem, state: StepState, budget: int
    ) -> tuple[StepState, int]:
        if problem.kernel is not None:
            from saddlescope.dynamics.kernels import _descent

            return _descent.advance(problem, state, budget)
        from saddlescope.dynamics.methods import _stepping

        return _stepping.advance(problem, state, budget)

    def clock(self, state: StepState) -> AnyArray:  # type: ignore[override]
        return np.asarray(state.step)

    def failures(  # type: ignore[override]
        self, problem: Problem, state: StepState, failed: AnyArray, starts: Float[Array, "F n"]
    ) -> list[str]:
        from saddlescope.dynamics.methods import _stepping

        steps = np.asarray(_stepping.overflow_steps(problem, state))[failed]
        rate = getattr(self, "learning_rate", np.inf) / 2
        rate = min(rate, _stepping.stable_rate(problem, starts))
        cure = f"learning_rate {rate:.2g}" if np.isfinite(rate) else "a smaller learning rate"
        begun_finite = np.isfinite(np.asarray(state.records.loss[:, 0]))[failed]
        return [
            f"diverged at step {step}; try {cure}"
            if finite
            else f"the loss overflows {self.precision} at the start; try a smaller init_scale"
            for step, finite in zip(steps.tolist(), begun_finite.tolist(), strict=True)
        ]


@kind("method", "descent")
@dataclass(frozen=True)
class GradientDescent(AbstractDescent):
    r"""Gradient descent $w \leftarrow w - \eta\,\partial L/\partial w$ for a number of `steps`.

    One step is $2\eta$ of flow time (section 0).

    >>> GradientDescent(learning_rate=.02, steps=10_000).flow_time(np.array([10_000]), 1.0)
    array([400.])
    """

    learning_rate: float
    steps: int
    converged: float | None = None
    precision: str = "float64"

    def __post_init__(self) -> None:
        _check(self, "learning_rate", "converged")

    def shortened(self, end: float) -> GradientDescent:
        return replace(self, steps=int(end), converged=None)

    @property
    def has_kernel(self) -> bool:
        return True

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return 2 * self.learning_rate * unit * np.asarray(clock, dtype=np.float64)

    def make_step(self) -> AbstractStep:
        from saddlescope.dynamics.methods._steps import GradientStep

        return GradientStep.of(self.learning_rate)


@kind("method", "stochastic_descent")
@dataclass(frozen=True)
class StochasticGradientDescent(AbstractDescent):
    r"""Gradient descent on `batch_size` freshly drawn prompts a step.

    On a law every step draws new prompts; on `Prompts` it draws rows of them. The recorded loss is
    exact where that is known, else the loss on a fixed set of probe prompts. Each seed of an
    ensemble draws its own prompts, from the seed and `key`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> method = ss.StochasticGradientDescent(learning_rate=.1, steps=20, batch_size=8)
    >>> run = ss.train(ss.SeparateAttention(2), task, method=method, record=3)
    >>> run.time.tolist()  # a step is 2η of flow time
    [0.0, 2.0, 4.0]
    """

    learning_rate: float
    steps: int
    batch_size: int = 256
    key: int = 0
    precision: str = "float64"

    def __post_init__(self) -> None:
        _check(self, "learning_rate")

    @property
    def converged(self) -> None:  # type: ignore[override]
        return None

    @property
    def is_stochastic(self) -> bool:
        return True

    def shortened(self, end: float) -> StochasticGradientDescent:
        raise InvalidInput("method", self, "a stochastic run cannot be retraced")

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return 2 * self.learning_rate * unit * np.asarray(clock, dtype=np.float64)

    def make_step(self) -> AbstractStep:
        from saddlescope.dynamics.methods._steps import FreshStep, GradientStep

        return FreshStep.of(GradientStep.of(self.learning_rate), self.key, self.batch_size)


@kind("method", "optimiser")
@dataclass(frozen=True)
class Optimiser(AbstractDescent):
    """Any optax optimiser, by name or as an optax object.

    Full-batch on the exact loss, or on `batch_size` fresh prompts a step. The unit of time is the
    step: flow time has no meaning, and times are not predicted.

    - `optimiser`: a name in optax, which takes `learning_rate` and `options`; or an optax
      optimiser, of which only the `label` is saved with a run.
    - `options`: further arguments of the named optimiser.
    - `label`: identifies an optax optimiser; by default a hash of its functions and their numbers,
      the same in every process.

    >>> Optimiser("adam", steps=1000, learning_rate=1e-3, options={"b1": .8}).transform is not None
    True
    """

    optimiser: str | optax.GradientTransformation | None
    steps: int
    learning_rate: float | None = None
    batch_size: int | None = None
    key: int = 0
    converged: float | None = None
    options: Mapping[str, float] | None = None
    label: str | None = None
    precision: str = "float64"

    def __post_init__(self) -> None:
        import optax

        _check(self, *[f for f in ("learning_rate", "converged") if getattr(self, f) is not None])
        if isinstance(self.optimiser, str):
            if not callable(getattr(optax, self.optimiser, None)):
                raise InvalidInput("optimiser", self.optimiser, "is not a name in optax")
            if self.learning_rate is None:
                raise InvalidInput("learning_rate", None, "is needed with an optimiser's name")
            _named(self)
        elif isinstance(self.optimiser, optax.GradientTransformation):
            if self.label is None:
                from saddlescope.dynamics.methods._steps import describe_transform

                object.__setattr__(self, "label", describe_transform(self.optimiser))
        elif self.optimiser is not None or self.label is None:
            raise InvalidInput("optimiser", self.optimiser, "must be an optax optimiser or a name")

    def written(self) -> dict[str, object]:
        """The fields to save; an optimiser that is an optax object is saved as its label."""
        kept = self.optimiser if isinstance(self.optimiser, str) else None
        return {**vars(self), "optimiser": kept}

    @property
    def transform(self) -> optax.GradientTransformation:
        """The optax transformation."""
        if isinstance(self.optimiser, str):
            return _named(self)
        if self.optimiser is None:
            raise InvalidInput("optimiser", self.label, "was not saved; give it again")
        return self.optimiser

    @property
    def is_elementwise(self) -> bool:
        """Whether a step is the learning rate times a function of each weight's own past."""
        return self.optimiser in _ELEMENTWISE

    @property
    def keeps_zeros(self) -> bool:
        return self.is_elementwise and not self.is_stochastic

    @property
    def is_stochastic(self) -> bool:
        return self.batch_size is not None

    @property
    def has_flow_time(self) -> bool:
        return False

    def shortened(self, end: float) -> Optimiser:
        raise InvalidInput("method", self, "an optimiser with memory cannot be retraced")

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return np.asarray(clock, dtype=np.float64)

    def make_step(self) -> AbstractStep:
        from saddlescope.dynamics.methods._steps import FreshStep, OptaxStep

        if self.is_elementwise:
            assert self.learning_rate is not None
            inner = OptaxStep.of(_named(replace(self, learning_rate=1.0)), self.learning_rate)
        else:
            inner = OptaxStep(self.transform)
        return inner if self.batch_size is None else FreshStep.of(inner, self.key, self.batch_size)


def _named(method: Optimiser) -> optax.GradientTransformation:
    import optax

    from saddlescope.dynamics.methods._steps import named_transform

    if not isinstance(method.options, Mapping | None):
        raise InvalidInput("options", method.options, "must be a mapping of names to numbers")
    options = dict(method.options or {})
    for name, value in options.items():
        if not isinstance(value, bool):
            number(f"options[{name!r}]", value)
    try:
        transform = named_transform(
            str(method.optimiser), method.learning_rate, tuple(sorted(options.items()))
        )
    except Exception as wrong:
        # Optax may raise anything.
        raise InvalidInput("options", method.options, f"{method.optimiser}: {wrong}") from None
    if not isinstance(transform, optax.GradientTransformation):
        raise InvalidInput("optimiser", method.optimiser, "is not an optax optimiser")
    return transform


def _check(method: AbstractDescent, *positive: str) -> None:
    """Validate and convert the fields that step-wise methods share."""
    for field in positive:
        if getattr(method, field) is not None:
            object.__setattr__(method, field, number(field, getattr(method, field), above=0.0))
    check_share("converged", method.converged)
    is_single = one_of("precision", method.precision, PRECISIONS) == "float32"
    steps = whole_number("steps", method.steps, at_most=_MOST_STEPS[is_single])
    object.__setattr__(method, "steps", steps)
    for field in ("batch_size", "key"):
        if getattr(method, field, None) is not None:
            value = whole_number(field, getattr(method, field), at_least=int(field != "key"))
            object.__setattr__(method, field, value)
