"""Initial weights: a seed's start depends only on the seed and the model's shape."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.arrays import Weights
from saddlescope.attention.base import AbstractAttention, AbstractLinearAttention
from saddlescope.attention.draws import standard_normals
from saddlescope.checks import (
    AnyArray,
    FloatArray,
    list_seeds,
    listed,
    number,
    one_of,
    real_array,
    seed_labels,
    whole_number,
)
from saddlescope.errors import InvalidInput
from saddlescope.running.memory import check_memory
from saddlescope.setting.kinds import kind, part
from saddlescope.task import AbstractData, AbstractTask, RegressionMoments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# A solver holds its slopes beside the weights.
_COPIES = 10


@part("init")
class AbstractStart(abc.ABC):
    """Gives the initial weights of each seed.

    - `init_scale`: w, the scale of random weights.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> start = ss.RandomStart(.01)
    >>> {name: array.shape for name, array in start.weights(model, task, seed=3).items()}
    {'v': (2,), 'k': (2, 1, 2), 'q': (2, 1, 2)}
    """

    @abc.abstractmethod
    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        """The initial weights of `seeds` in float64, with them along the first axis."""

    def weights(self, model: AbstractAttention, task: AbstractData, seed: int) -> Weights:
        """The initial weights of one seed, in float64."""
        alone = np.array([whole_number("seed", seed, at_least=0)])
        return {name: array[0] for name, array in self.ensemble(model, task, alone).items()}

    def labels(self, model: AbstractAttention, task: AbstractData) -> tuple[int, ...] | None:
        """The seeds that it has weights for; None where it has weights for every seed."""
        return None

    def check(self, model: AbstractAttention, task: AbstractData, seeds: tuple[int, ...]) -> None:
        """Raise if it has no weights for these seeds, or weights that would not fit in memory."""
        some = np.unique([seeds[0], max(seeds)])
        check_weights_fit(model, task, len(some))
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self.ensemble(model, task, some)
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise InvalidInput("init", self, "gives weights beyond float64")


@kind("init", "random")
@dataclass(frozen=True)
class RandomStart(AbstractStart):
    """The papers' random start of scale w: $v_i \\sim N(0, w^2/H)$, … (section 0).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> ss.RandomStart(.01).weights(model, task, seed=0)["v"].round(4).tolist()
    [-0.0015, -0.0034]
    """

    init_scale: float = 0.01

    def __post_init__(self) -> None:
        _check_scale(self)

    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        deviations = model.deviations(task.dimension)
        weights: Weights = {}
        for stream, (name, shape) in enumerate(model.shapes(task.dimension).items()):
            drawn = standard_normals(seeds, stream, math.prod(shape))
            drawn *= self.init_scale * deviations[name]
            weights[name] = drawn.reshape(-1, *shape)
        return weights


@kind("init", "balanced")
@dataclass(frozen=True)
class BalancedStart(AbstractStart):
    """A start of scale w at which every conserved quantity (T14) is zero.

    - `direction`: `random` balances the papers' random start; `aligned` takes, for merged
      attention, every key–query matrix along the drive (T10; at Λ = I this is T9's own start).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.BalancedStart(.1).weights(model, task, seed=0)
    >>> all(abs(part).max() < 1e-15 for part in model.conserved(weights).values())
    True
    """

    init_scale: float = 0.01
    direction: str = "random"

    def __post_init__(self) -> None:
        _check_scale(self)
        one_of("direction", self.direction, ("random", "aligned"))

    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        # Balanced at scale one, where no square of a weight leaves float64, and then scaled.
        drawn = RandomStart(1.0).ensemble(model, task, seeds)
        if self.direction == "aligned":
            if set(drawn) != {"v", "U"}:
                raise InvalidInput("direction", "aligned", "needs merged attention")
            drive = _moments(task, "direction", "aligned").drive
            drawn["U"] = drive * np.sign(drawn["v"])[..., None, None]
        balanced = _with_map(model, self).balance(drawn)
        return {name: self.init_scale * array for name, array in balanced.items()}


@kind("init", "fixed_point")
@dataclass(frozen=True)
class FixedPointStart(AbstractStart):
    """The minimal-norm weights of the fixed point that has learned `subset` (T8), plus noise.

    - `subset`: eigenvectors, counted from 0 in falling order of eigenvalue.
    - `init_scale`: that of a random perturbation drawn as the papers' start (0: exactly on the
      fixed point).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.FixedPointStart([0]).weights(model, task, seed=0)
    >>> model.effective_map(weights).round(4).tolist()  # ξ₁ on the first eigenvector alone
    [[2.2963, 0.0], [0.0, 0.0]]
    """

    subset: Sequence[int]
    init_scale: float = 0.0

    def __post_init__(self) -> None:
        given = listed("subset", self.subset, "must be eigenvectors, counted from 0")
        members = tuple(whole_number("subset", member, at_least=0) for member in given)
        if len(set(members)) != len(members):
            raise InvalidInput("subset", self.subset, "must name each eigenvector once")
        object.__setattr__(self, "subset", members)
        scale = number("init_scale", self.init_scale, at_least=0.0)
        object.__setattr__(self, "init_scale", scale)

    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        directions = eigenvectors(task, tuple(self.subset))
        moments = _moments(task, "subset", self.subset)
        drive, summary, query = (
            np.einsum("md,de,me->m", directions, matrix, directions)
            for matrix in (moments.drive, moments.summary, moments.query)
        )
        if (drive == 0).any():
            raise InvalidInput("subset", self.subset, "names an eigenvector that nothing drives")
        values = drive / (summary * query)
        effective_map = (directions.T * (values / model.gain(task.fixed_length))) @ directions
        exact = _repeat(_with_map(model, self).realise(effective_map), len(seeds))
        if self.init_scale == 0:
            return exact
        noise = RandomStart(self.init_scale).ensemble(model, task, seeds)
        return {name: exact[name] + noise[name] for name in exact}


@kind("init", "eigenvector")
@dataclass(frozen=True)
class EigenvectorStart(AbstractStart):
    """One head along an eigenvector (T12), the rest zero.

    - `direction`: the eigenvector, counted from 0 in falling order of eigenvalue.
    - `init_scale`: the length of its value, key and query.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> ss.EigenvectorStart(1, init_scale=.1).weights(model, task, seed=0)["k"].tolist()
    [[[0.0, 0.1]], [[0.0, 0.0]]]
    """

    direction: int = 0
    init_scale: float = 0.01

    def __post_init__(self) -> None:
        direction = whole_number("direction", self.direction, at_least=0)
        object.__setattr__(self, "direction", direction)
        _check_scale(self)

    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        (direction,) = eigenvectors(task, (self.direction,), "direction")
        outer = np.float64(self.init_scale) ** model.degree * np.outer(direction, direction)
        if not np.isfinite(outer).all():
            raise InvalidInput("init_scale", self.init_scale, "gives weights beyond float64")
        return _repeat(_with_map(model, self).realise(outer), len(seeds))


@kind("init", "given")
@dataclass(frozen=True, eq=False)
class GivenStart(AbstractStart):
    """Given weights: one set for all seeds, or one per seed along a leading axis.

    - `arrays`: the weights by name.
    - `labelled`: the seeds along the leading axis, 0 to n − 1 by default.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> on_the_first = [[[1., 0.]], [[0., 0.]]]
    >>> start = ss.GivenStart({"v": [1., 0.], "k": on_the_first, "q": on_the_first})
    >>> model.effective_map(start.weights(model, task, seed=0)).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    arrays: Mapping[str, ArrayLike]
    labelled: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arrays, Mapping):
            raise InvalidInput("weights", self.arrays, "must be a mapping of names to arrays")
        arrays = {name: real_array(f"weights[{name!r}]", a) for name, a in self.arrays.items()}
        object.__setattr__(self, "arrays", arrays)
        if self.labelled is not None:
            object.__setattr__(self, "labelled", seed_labels(self.labelled))

    def ensemble(self, model: AbstractAttention, task: AbstractData, seeds: AnyArray) -> Weights:
        checked = model.check_weights(self.arrays, task.dimension)
        labels = self._labels(checked, model, task)
        if labels is None:
            return _repeat(checked, len(seeds))
        missing = np.setdiff1d(seeds, labels)
        if missing.size:
            known = f"weights are given for seeds {list_seeds(labels)}"
            raise InvalidInput("seeds", int(missing[0]), known)
        order = np.argsort(labels)
        index = order[np.searchsorted(labels, seeds, sorter=order)]
        return {name: array[index] for name, array in checked.items()}

    def labels(self, model: AbstractAttention, task: AbstractData) -> tuple[int, ...] | None:
        return self._labels(model.check_weights(self.arrays, task.dimension), model, task)

    def _labels(
        self, checked: Weights, model: AbstractAttention, task: AbstractData
    ) -> tuple[int, ...] | None:
        name, shape = next(iter(model.shapes(task.dimension).items()))
        if checked[name].ndim == len(shape):
            return None
        count = len(checked[name])
        labels = tuple(range(count)) if self.labelled is None else tuple(self.labelled)
        if len(labels) != count:
            raise InvalidInput("seeds", labels, f"weights are given for {count} seeds")
        return labels


def check_weights_fit(model: AbstractAttention, task: AbstractData, seeds: int) -> None:
    """Refuse weights that would not fit in memory during training, before they are made."""
    numbers = sum(math.prod(shape) for shape in model.shapes(task.dimension).values())
    sizes = {"seeds": seeds, "spectrum": task.dimension}
    sizes |= {name: value for name, value in vars(model).items() if type(value) is int}
    check_memory(_COPIES * seeds * numbers, sizes, "take fewer seeds, or a smaller model")


def _repeat(weights: Weights, seeds: int) -> Weights:
    """The same weights for every seed."""
    return {name: np.repeat(array[None], seeds, axis=0) for name, array in weights.items()}


def eigenvectors(task: AbstractData, subset: tuple[int, ...], field: str = "subset") -> FloatArray:
    """The eigenvectors that a start names, as rows."""
    named = subset if field == "subset" else subset[0]
    law = _law(task, field, named)
    if subset and max(subset) >= task.dimension:
        raise InvalidInput(field, named, f"must name eigenvectors 0 to {task.dimension - 1}")
    basis = law.common_basis
    if basis is None:
        raise InvalidInput(
            field, named, "needs covariances that commute; theory.minimal_norm_weights has others"
        )
    return basis.T[list(subset)]


def _with_map(model: AbstractAttention, start: AbstractStart) -> AbstractLinearAttention:
    if not isinstance(model, AbstractLinearAttention):
        raise InvalidInput("init", start, f"needs an effective map: {model!r} has none")
    return model


def _law(task: AbstractData, field: str, value: object) -> AbstractTask:
    if not isinstance(task, AbstractTask):
        raise InvalidInput(field, value, "needs a task with known moments, not given data")
    return task


def _moments(task: AbstractData, field: str, value: object) -> RegressionMoments:
    return _law(task, field, value).moments()


def _check_scale(start: RandomStart | BalancedStart | EigenvectorStart) -> None:
    object.__setattr__(start, "init_scale", number("init_scale", start.init_scale, above=0.0))
