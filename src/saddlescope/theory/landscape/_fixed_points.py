"""Where training can rest: the fixed points of both parametrisations and the plateaus of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention, Weights
from saddlescope.errors import InvalidInput
from saddlescope.tables import html_table, name_eigenvectors, text_table
from saddlescope.theory.landscape._abstract_modes import AbstractModes
from saddlescope.theory.landscape._singular_modes import any_modes
from saddlescope.theory.parametrisation import check_blocks, is_merged, linear_model, population_law

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_MOST_MODES = 16
_HEADINGS = ("learned", "loss", "index", "rest")


@dataclass(frozen=True, eq=False)
class FixedPoint:
    r"""A fixed point in function space, $W_S = \sum_{d\in S}\xi_d a_d b_d^\top$ (T19; Z eq. 21–23).

    Where covariances commute $a_d = b_d = e_d$, the eigenvectors that they share.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> point = ss.theory.fixed_points(task).at([1])
    >>> point.index, round(point.loss, 4)
    (1, 0.4291)
    """

    subset: tuple[int, ...]
    """The modes that are learned, counted from 0: in the order of the inputs' eigenvalues where
    covariances commute, else by falling drop."""
    loss: float
    """L(S) (T7, T17, T19)."""
    index: int
    """The number of directions in which the loss falls at second order, at the minimal-norm
    weights (T16)."""
    is_continuum: bool
    """Whether modes of equal drop are learned in part only: then any part of that size is as good,
    and `subset` names one of them."""
    modes: AbstractModes = field(repr=False)

    @property
    def key_directions(self) -> Float[np.ndarray, "m D"]:
        """$a_d$ of each learned mode as rows; shortest weights have the singular vectors of
        $W_S$ itself."""
        return self.modes.key_directions.T[list(self.subset)]

    @property
    def query_directions(self) -> Float[np.ndarray, "m D"]:
        """$b_d$ of each learned mode as rows."""
        return self.modes.query_directions.T[list(self.subset)]

    @property
    def amplitudes(self) -> Float[np.ndarray, " m"]:
        r"""$\xi_d$ of each learned mode."""
        return self.modes.amplitude[list(self.subset)]

    @property
    def effective_map(self) -> Float[np.ndarray, "D D"]:
        """$W_S$, in the task's own coordinates."""
        return self.modes.effective_map(self.subset)

    def __str__(self) -> str:
        return text_table(_HEADINGS, [self.cells])

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, [self.cells])

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of a table: the eigenvectors that are learned, loss, index, rest."""
        rest = "continuum" if self.is_continuum else "point"
        return name_eigenvectors(self.subset), f"{self.loss:.5f}", str(self.index), rest


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoints:
    """All fixed points, by size and then by subset: a sequence, with `at(subset)` beside it.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> points = ss.theory.fixed_points(task)
    >>> len(points), points.at([0]).index
    (4, 0)
    """

    points: tuple[FixedPoint, ...]
    modes: AbstractModes

    @property
    def losses(self) -> Float[np.ndarray, " S"]:
        """The loss of each one."""
        return np.array([point.loss for point in self.points])

    @property
    def indices(self) -> Int[np.ndarray, " S"]:
        """The index of each one."""
        return np.array([point.index for point in self.points])

    def at(self, subset: Iterable[int]) -> FixedPoint:
        """The fixed point that has learned `subset`, or as much of each group of equal drops."""
        wanted = representative(self.modes, self.modes.subset(subset))
        for point in self.points:
            if point.subset == wanted:
                return point
        raise InvalidInput("subset", tuple(wanted), "is no fixed point of this model")

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[FixedPoint]:
        return iter(self.points)

    def __getitem__(self, position: int) -> FixedPoint:
        return self.points[position]

    def to_dataframe(self) -> pd.DataFrame:
        """One row a fixed point."""
        import pandas as pd

        columns = ["subset", "loss", "index", "is_continuum"]
        rows = [[getattr(point, name) for name in columns] for point in self.points]
        return pd.DataFrame(rows, columns=columns)

    def to_dataset(self) -> xr.Dataset:
        """Over `point` and `direction`: which eigenvectors are `learned`, loss, index."""
        import xarray as xr

        learned = self.modes.membership(point.subset for point in self.points)
        return xr.Dataset(
            {
                "learned": (("point", "direction"), learned),
                "point_loss": ("point", self.losses),
                "point_index": ("point", self.indices),
                "is_continuum": ("point", [point.is_continuum for point in self.points]),
                "amplitude": ("direction", self.modes.amplitude),
            }
        )

    def __repr__(self) -> str:
        losses = self.losses
        spread = f"losses {losses.max():.5g} to {losses.min():.5g}"
        return f"FixedPoints({len(self)} of {self.modes.dimension} eigenvectors, {spread})"

    def __str__(self) -> str:
        return text_table(_HEADINGS, [point.cells for point in self.points], left=1)

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, [point.cells for point in self.points])


@dataclass(frozen=True, eq=False, repr=False)
class Minimum(BriefRepr):
    """The least loss of all linear attention, and the effective map that has it.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> round(ss.theory.minimum(task).loss, 4)
    0.0617
    """

    effective_map: Float[np.ndarray, "D D"]
    loss: float


def plateau_losses(
    task: object, *, model: AbstractAttention | None = None
) -> Float[np.ndarray, " levels"]:
    r"""The losses of the plateaus $M_0, M_1, \dots, M_D$ that training visits in turn.

    $L(M_m) = \mathrm{tr}(\Sigma_w\Lambda_q) - \sum_{d\le m}\Delta_d$ with
    $\Delta_d = \lambda_d (1 + (1 + \mathrm{tr}\Lambda/\lambda_d)/N)^{-1}$ in the papers' case
    (T7, T17; Z eq. 24, 59). D+1 levels, where D counts the eigenvectors that have a drive; equal
    eigenvalues give equal steps. It claims the in-order path, so it raises `TheoryDoesNotApply`
    where the orders of T17 disagree. Where covariances do not commute $M_m$ has learned the m
    modes of largest $\Delta_d = \sigma_d^2$ (T19): they alone have index zero, and training rests
    there; whether it rests elsewhere on its way is not claimed. With a `model`, those levels that
    it can reach: of merged attention $M_0$ and $M_*$ alone, whatever the orders.

    >>> from saddlescope.task import InContextRegression
    >>> plateau_losses(InContextRegression([.4, .3, .2, .1], context_length=31)).round(5).tolist()
    [1.0, 0.64058, 0.37737, 0.2098, 0.136]
    """
    if model is not None and is_merged(model):
        return fixed_points(task, model=model).losses
    task_modes = any_modes(task)
    task_modes.require_order("the sequence of plateaus")
    if model is None:
        return task_modes.levels
    check_blocks(model, task)
    return task_modes.levels[: linear_model(model).capacity(task_modes.dimension) + 1]


def fixed_points(task: object, *, model: AbstractAttention | None = None) -> FixedPoints:
    r"""All fixed points in function space, for any covariances (T19; Z eq. 14, 16, 21–23, 81–84).

    Separate attention has one for each subset of the modes that its heads can carry, $2^D$ without
    a model (rank one, heads enough); merged attention has the zero function $M_0$ and the minimum
    $M_*$ alone. Modes of equal drop are counted, not named: how many of them are learned. Where
    covariances commute the modes are their common eigenvectors, in the order of the inputs'
    eigenvalues; else they are the singular triples of $B^{-1/2}\Lambda\Sigma_w\Lambda_q^{1/2}$, in
    falling order (`singular_modes`).

    >>> from saddlescope.task import InContextRegression
    >>> points = fixed_points(InContextRegression([.4, .3, .2, .1], context_length=31))
    >>> points
    FixedPoints(16 of 4 eigenvectors, losses 1 to 0.136)
    >>> print(points.at([1, 3]))
     learned     loss  index   rest
    ────────  ───────  ─────  ─────
    {e2, e4}  0.66298      3  point
    """
    if model is not None:
        check_blocks(model, task)
    task_modes = any_modes(task)
    every = tuple(int(mode) for mode in np.flatnonzero(task_modes.active))
    if model is not None and is_merged(model):
        zero = FixedPoint(
            (), task_modes.label_power, model.heads if every else 0, False, task_modes
        )
        least = FixedPoint(every, float(task_modes.levels[-1]), 0, False, task_modes)
        return FixedPoints((zero, least) if every else (zero,), task_modes)
    if len(every) > _MOST_MODES:
        raise InvalidInput(
            "dimension", len(every), f"the 2^D fixed points are listed up to D = {_MOST_MODES}"
        )
    capacity = len(every) if model is None else linear_model(model).capacity(task_modes.dimension)
    subsets = _subsets(task_modes, capacity)
    membership = task_modes.membership(subsets)
    losses = task_modes.label_power - membership @ task_modes.drop
    indices = task_modes.saddle_index(membership, 1 if model is None else linear_model(model).pairs)
    several = [set(group) for group in task_modes.equal_drops if len(group) > 1]
    points = tuple(
        FixedPoint(subset, loss, index, _is_partial(several, subset), task_modes)
        for subset, loss, index in zip(subsets, losses.tolist(), indices.tolist(), strict=True)
    )
    return FixedPoints(points, task_modes)


def minimum(task: object) -> Minimum:
    r"""$W_* = B^{-1}\Lambda\Sigma_w$ and its loss, for any covariances (T3; Z eq. 16).

    In the papers' case $W_* = (\Lambda + (\Lambda + \mathrm{tr}(\Lambda) I)/N)^{-1}$. Directions
    that no input or no query takes get no weight.

    >>> from saddlescope.task import InContextRegression
    >>> round(minimum(InContextRegression([.4, .3, .2, .1], context_length=31)).loss, 5)
    0.136
    """
    moments = population_law(task).moments()
    summary, query = (
        np.linalg.pinv(matrix, hermitian=True) for matrix in (moments.summary, moments.query)
    )
    best = summary @ moments.drive @ query
    return Minimum(best, float(moments.label_power - (best * moments.drive).sum()))


def minimal_norm_weights(
    model: AbstractAttention, task: object, point: FixedPoint | Iterable[int]
) -> Weights:
    r"""The shortest weights of `model` at a fixed point, or at the one that learned a subset (T8).

    With $W_S = \sum_j\zeta_j a_j b_j^\top$ its singular value decomposition, at rank one head j has
    $k = v a_j$, $q = v b_j$, $v = \zeta_j^{1/3}$; where covariances commute $a = b = e_d$ and
    $\zeta = \xi_d$ (Z eq. 25). At rank R a head that carries several directions has
    $v^3 = \sum_r\zeta_r$ and $\|k_r\|^2 = \|q_r\|^2 = \zeta_r/v$.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3], context_length=31)
    >>> minimal_norm_weights(SeparateAttention(heads=2), task, [0])["v"].round(4).tolist()
    [1.3193, 0.0]
    """
    check_blocks(model, task)
    task_modes = any_modes(task)
    subset = task_modes.subset(point.subset if isinstance(point, FixedPoint) else point)
    if is_merged(model) and 0 < len(subset) < len(task_modes.order):
        raise InvalidInput("subset", subset, "merged attention rests at none or all of its modes")
    learned = task_modes.effective_map(subset)
    return linear_model(model).realise(learned / model.gain(population_law(task).fixed_length))


def _subsets(modes: AbstractModes, capacity: int) -> list[tuple[int, ...]]:
    """One subset for each way to learn some of every group of equal drops, by size."""
    choices = [[group[:count] for count in range(len(group) + 1)] for group in modes.equal_drops]
    every = (tuple(sorted(sum(parts, ()))) for parts in product(*choices))
    return sorted((s for s in every if len(s) <= capacity), key=lambda s: (len(s), s))


def representative(modes: AbstractModes, subset: tuple[int, ...]) -> tuple[int, ...]:
    """The subset that stands for all with as many of every group of equal drops."""
    parts = [group[: len(set(group) & set(subset))] for group in modes.equal_drops]
    return tuple(sorted(sum(parts, ())))


def _is_partial(groups: list[set[int]], subset: tuple[int, ...]) -> bool:
    """Whether some of a group is learned, but not all of it."""
    return any(0 < len(group.intersection(subset)) < len(group) for group in groups)
