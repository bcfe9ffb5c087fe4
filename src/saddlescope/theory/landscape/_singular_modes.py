"""The modes of a task whose covariances need not commute (T19)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.arrays import BriefRepr, whitened_triples
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.theory.landscape._abstract_modes import AbstractModes
from saddlescope.theory.landscape._modes import modes, scalar_law


@dataclass(frozen=True, eq=False, repr=False)
class SingularModes(BriefRepr, AbstractModes):
    r"""T19, one entry for each singular triple of the whitened drive, in falling order.

    $B^{-1/2}\Lambda\Sigma_w\Lambda_q^{1/2} = \sum_d\sigma_d l_d r_d^\top$. In
    $\tilde W = B^{1/2}W\Lambda_q^{1/2}$ the loss is a distance, so that
    $\tilde W_S = \sum_{d\in S}\sigma_d l_d r_d^\top$ and $\Delta_d = \sigma_d^2$.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> modes = ss.theory.singular_modes(task)
    >>> (modes.singular_values ** 2).round(4).tolist()  # the drops
    [0.3674, 0.2709]
    """

    left: Float[np.ndarray, "D D"]
    """$B^{-1/2}l_d$ as columns."""
    singular_values: Float[np.ndarray, " D"]
    r"""$\sigma_d$, falling; 0 for what cannot be learned."""
    right: Float[np.ndarray, "D D"]
    r"""$\Lambda_q^{-1/2}r_d$ as columns."""
    label_power: float
    r"""$E[y_q^2]$, the loss of the zero function."""

    @property
    def key_directions(self) -> Float[np.ndarray, "D D"]:
        return _unit(self.left)

    @property
    def query_directions(self) -> Float[np.ndarray, "D D"]:
        return _unit(self.right)

    @cached_property
    def amplitude(self) -> Float[np.ndarray, " D"]:
        r"""$\xi_d = \sigma_d\,\|B^{-1/2}l_d\|\,\|\Lambda_q^{-1/2}r_d\|$."""
        left, right = (np.linalg.norm(side, axis=0) for side in (self.left, self.right))
        return self.singular_values * left * right

    @cached_property
    def drop(self) -> Float[np.ndarray, " D"]:
        r"""$\Delta_d = \sigma_d^2$."""
        return self.singular_values**2

    @cached_property
    def active(self) -> Bool[np.ndarray, " D"]:
        """Which modes can be learned: those of a singular value above zero."""
        return self.singular_values > 0

    @property
    def order(self) -> Int[np.ndarray, " M"]:
        """The modes that can be learned, by falling drop: as they are counted."""
        return np.flatnonzero(self.active)

    @property
    def claims_path(self) -> bool:
        """No: heads grow along the drive's own singular vectors, and settle on these (T18, T19)."""
        return False

    def require_order(self, claim: str) -> None:
        """The first m modes are those of the m largest drops: their index is zero (T19)."""


def singular_modes(task: object) -> SingularModes:
    r"""The modes of a task by T19, for any covariances of inputs, tasks and queries.

    They are counted by falling drop. Where covariances commute they are those of `modes` in
    another order, with $\sigma_d^2 = \Delta_d$.

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .1], 31, task_covariance=[[1, .5], [.5, 1]])
    >>> singular_modes(task).drop.round(5).tolist()
    [0.40223, 0.05518]
    """
    moments = scalar_law(task).moments()
    left, values, right = whitened_triples(moments.drive, moments.summary, moments.query)
    for array in (left, values, right):
        array.setflags(write=False)
    return SingularModes(left, values, right, moments.label_power)


def any_modes(task: object) -> AbstractModes:
    """The modes of a task: those of T17 where its covariances commute, else those of T19."""
    law = scalar_law(task)
    try:
        return modes(law)
    except TheoryDoesNotApply:
        return singular_modes(law)


def _unit(columns: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """Columns of length one; zero where there is nothing to learn."""
    lengths = np.linalg.norm(columns, axis=0)
    return np.divide(columns, lengths, out=np.zeros_like(columns), where=lengths > 0)
