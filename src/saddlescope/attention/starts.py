"""Where training begins: the start of a seed depends on the seed and the model's shape alone."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlescope.attention.base import AbstractAttention, AbstractLinearAttention, Weights
from saddlescope.checks import FloatArray, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task.aligned import VectorPrompts
from saddlescope.task.base import AbstractTask
from saddlescope.task.prompts import Prompts, Statistics

Task = AbstractTask | Prompts | Statistics | VectorPrompts


class AbstractStart(abc.ABC):
    """Gives the initial weights of each seed."""

    @abc.abstractmethod
    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        """The initial weights of one seed, in float64."""


@dataclass(frozen=True)
class PaperStart(AbstractStart):
    """The papers' random start of a scale w: $v_i \\sim N(0, w^2/H)$, … (section 0)."""

    scale: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", number("init_scale", self.scale, above=0.0))

    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        generator = np.random.default_rng(whole_number("seed", seed, at_least=0))
        deviations = model.deviations(task.dimension)
        return {
            name: self.scale * deviations[name] * generator.standard_normal(shape)
            for name, shape in model.shapes(task.dimension).items()
        }


@dataclass(frozen=True)
class BalancedStart(AbstractStart):
    """A start of a scale w on which every conserved quantity (T14) is zero.

    `direction="random"` balances the papers' random start. `direction="aligned"` takes, for merged
    attention, every key–query matrix along the drive (T10; at Λ = I this is T9's own start).
    """

    scale: float = 0.01
    direction: str = "random"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", number("init_scale", self.scale, above=0.0))
        one_of("direction", self.direction, ("random", "aligned"))

    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        drawn = PaperStart(self.scale).weights(model, task, seed)
        if self.direction == "aligned":
            if set(drawn) != {"v", "U"}:
                raise InvalidInput("direction", "aligned", "needs merged attention")
            drive = _moments(task, "direction", "aligned").drive
            drawn["U"] = (
                np.broadcast_to(drive, drawn["U"].shape) * np.sign(drawn["v"])[:, None, None]
            )
        return _with_map(model, self).balance(drawn)


@dataclass(frozen=True)
class FixedPointStart(AbstractStart):
    """The minimal-norm weights of the fixed point that has learned `subset` (T8), plus noise.

    `subset` counts eigenvectors from 0 in falling order of eigenvalue; `scale` is that of a random
    perturbation drawn as the papers' start (0: exactly on the fixed point).
    """

    subset: Any
    scale: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.subset, Iterable):
            raise InvalidInput("subset", self.subset, "must be eigenvectors, counted from 0")
        members = tuple(whole_number("subset", member, at_least=0) for member in self.subset)
        if len(set(members)) != len(members):
            raise InvalidInput("subset", self.subset, "must name each eigenvector once")
        object.__setattr__(self, "subset", members)
        object.__setattr__(self, "scale", number("init_scale", self.scale, at_least=0.0))

    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        directions = eigenvectors(task, self.subset)
        moments = _moments(task, "subset", self.subset)
        drive, summary, query = (
            _along(matrix, directions) for matrix in (moments.drive, moments.summary, moments.query)
        )
        if (drive == 0).any():
            raise InvalidInput("subset", self.subset, "names an eigenvector that nothing drives")
        values = drive / (summary * query)
        exact = _with_map(model, self).realise(
            (directions.T * (values / model.gain(task.fixed_length))) @ directions
        )
        if self.scale == 0:
            return exact
        noise = PaperStart(self.scale).weights(model, task, seed)
        return {name: exact[name] + noise[name] for name in exact}


@dataclass(frozen=True)
class EigenvectorStart(AbstractStart):
    """One head of value, key and query length `scale` along an eigenvector (T12), the rest zero."""

    direction: int = 0
    scale: float = 0.01

    def __post_init__(self) -> None:
        place = whole_number("direction", self.direction, at_least=0)
        object.__setattr__(self, "direction", place)
        object.__setattr__(self, "scale", number("init_scale", self.scale, above=0.0))

    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        (direction,) = eigenvectors(task, (self.direction,), "direction")
        outer = self.scale**model.degree * np.outer(direction, direction)
        return _with_map(model, self).realise(outer)


@dataclass(frozen=True, eq=False)
class GivenStart(AbstractStart):
    """Given weights: one set for all seeds, or one a seed along a leading axis."""

    arrays: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.arrays, Mapping):
            raise InvalidInput("weights", self.arrays, "must be a mapping of names to arrays")
        arrays = {name: real_array(f"weights[{name!r}]", a) for name, a in self.arrays.items()}
        object.__setattr__(self, "arrays", arrays)

    def weights(self, model: AbstractAttention, task: Task, seed: int) -> Weights:
        checked = model.check_weights(self.arrays, task.dimension)
        if not self.is_ensemble(model, task):
            return checked
        count = len(next(iter(checked.values())))
        if seed >= count:
            raise InvalidInput("seeds", seed, f"weights are given for {count} seeds")
        return {name: array[seed] for name, array in checked.items()}

    def is_ensemble(self, model: AbstractAttention, task: Task) -> bool:
        """Whether the arrays have a leading axis of seeds."""
        name, shape = next(iter(model.shapes(task.dimension).items()))
        return name in self.arrays and self.arrays[name].ndim == len(shape) + 1

    def count(self, model: AbstractAttention, task: Task) -> int | None:
        """How many seeds the weights are given for, None if one set serves all."""
        checked = model.check_weights(self.arrays, task.dimension)
        return len(next(iter(checked.values()))) if self.is_ensemble(model, task) else None


def stack_starts(
    start: AbstractStart, model: AbstractAttention, task: Task, seeds: Iterable[int]
) -> Weights:
    """The initial weights of an ensemble, seeds along the first axis."""
    each = [start.weights(model, task, seed) for seed in seeds]
    return {name: np.stack([weights[name] for weights in each]) for name in each[0]}


def eigenvectors(task: Any, subset: tuple[int, ...], field: str = "subset") -> FloatArray:
    """The eigenvectors that a start names, as rows."""
    named = subset if field == "subset" else subset[0]
    _moments(task, field, named)
    if subset and max(subset) >= task.dimension:
        raise InvalidInput(field, named, f"must name eigenvectors 0 to {task.dimension - 1}")
    basis = task.common_basis
    if basis is None:
        raise InvalidInput(field, named, "needs covariances that commute")
    rows: FloatArray = basis.T[list(subset)]
    return rows


def _with_map(model: AbstractAttention, start: AbstractStart) -> AbstractLinearAttention:
    if not isinstance(model, AbstractLinearAttention):
        raise InvalidInput("init", start, f"needs an effective map: {model!r} has none")
    return model


def _moments(task: Task, field: str, value: object) -> Any:
    if not isinstance(task, AbstractTask):
        raise InvalidInput(field, value, "needs a task with known moments, not given data")
    return task.moments()


def _along(matrix: FloatArray, directions: FloatArray) -> FloatArray:
    return np.einsum("md,de,me->m", directions, matrix, directions)
