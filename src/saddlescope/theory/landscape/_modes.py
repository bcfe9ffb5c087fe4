"""The modes of a task: all that the theory needs to know of it, one entry an eigenvector (T17)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.arrays import BriefRepr
from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.task import AbstractTask
from saddlescope.theory.landscape._abstract_modes import ROUNDING, AbstractModes, distinct_ranks
from saddlescope.theory.parametrisation import population_law

# What is left where a task has no modes of T17.
_HOLDS = (
    "fixed points, levels and indices hold for its singular modes, counted by falling drop (T19: "
    "fixed_points, plateau_losses, saddle_graph); so do the first drop (T18: first_drop_times) and "
    "minimum(task)"
)


@dataclass(frozen=True, eq=False, repr=False)
class Modes(BriefRepr, AbstractModes):
    r"""T17, one entry for each eigenvector that the moments of a task share.

    Where $\Lambda$, $\Sigma_w$ and $\Lambda_q$ have eigenvalues $\lambda_d, \omega_d, \kappa_d$,
    $c_d = \lambda_d\omega_d\kappa_d$ and
    $b_d = (1+(1+\gamma_d)/N)\lambda_d^2\omega_d
    + (\mathrm{tr}(\Sigma_w\Lambda)+\sigma^2)\lambda_d/N$, $\gamma_d$ being the excess kurtosis of
    inputs, 0 for Gaussian ones (T20). In the papers' case $c_d = \lambda_d^2$ and $b_d = a_d$, the
    eigenvalues of $E[\hat\Lambda^2]$ (T1; Z eq. 20).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> modes = ss.theory.modes(task)
    >>> modes.drive.round(2).tolist(), modes.drop.round(4).tolist()
    ([0.16, 0.09], [0.3674, 0.2709])
    """

    basis: Float[np.ndarray, "D D"]
    """The eigenvectors as columns, in the task's own order: that of the inputs' eigenvalues."""
    query_eigenvalues: Float[np.ndarray, " D"]
    r"""$\kappa_d$ of the query's covariance."""
    summary: Float[np.ndarray, " D"]
    r"""$b_d$ of $B = E[\beta\beta^\top]$."""
    drive: Float[np.ndarray, " D"]
    r"""$c_d$ of $E[y_q\beta x_q^\top]$: who escapes zero first."""
    label_power: float
    r"""$E[y_q^2]$, the loss of the zero function."""

    @property
    def key_directions(self) -> Float[np.ndarray, "D D"]:
        """The eigenvectors, which keys and …"""
        return self.basis

    @property
    def query_directions(self) -> Float[np.ndarray, "D D"]:
        """… queries share."""
        return self.basis

    @property
    def saturation(self) -> Float[np.ndarray, " D"]:
        r"""$b_d\kappa_d$."""
        return self.summary * self.query_eigenvalues

    @property
    def rise_time(self) -> Float[np.ndarray, " D"]:
        r"""$1/(c_d\xi_d^{1/3})$, the unit of time in which a head learns (T12)."""
        rate = self.drive * np.cbrt(self.amplitude)
        return np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 0)

    @property
    def growth_rate(self) -> float:
        r"""$\|c\|$, at which merged attention leaves zero (T11)."""
        return float(np.linalg.norm(self.drive))

    @cached_property
    def amplitude(self) -> Float[np.ndarray, " D"]:
        r"""$\xi_d = c_d/(b_d\kappa_d)$, the effective map's entry once learned; 0 without drive."""
        amplitude = np.zeros(self.dimension)
        np.divide(self.drive, self.saturation, out=amplitude, where=self.active)
        return amplitude

    @cached_property
    def drop(self) -> Float[np.ndarray, " D"]:
        r"""$\Delta_d = c_d\xi_d$, by how much the loss falls: who is stable once learned."""
        return self.drive * self.amplitude

    @cached_property
    def active(self) -> Bool[np.ndarray, " D"]:
        """Which modes can be learned: those with a drive above zero."""
        return self.drive > 0

    @cached_property
    def order(self) -> Int[np.ndarray, " M"]:
        """The modes that can be learned, in the order in which they are: by drive, then by drop."""
        by_drive = np.lexsort((-self.drop, distinct_ranks(self.drive)))
        return np.array([mode for mode in by_drive if self.active[mode]], dtype=int)

    @property
    def orders_agree(self) -> bool:
        """Whether no mode of stronger drive has a smaller drop; equal ones agree with any."""
        drive, drop = distinct_ranks(self.drive)[self.order], self.drop_ranks[self.order]
        stronger = drive[:, None] < drive[None, :]
        return not bool((stronger & (drop[:, None] > drop[None, :])).any())

    @property
    def claims_path(self) -> bool:
        return self.orders_agree

    @cached_property
    def same_eigenspace(self) -> Float[np.ndarray, "D D"]:
        """1 where two modes are of one eigenspace, 0 elsewhere."""
        same = np.zeros((self.dimension, self.dimension))
        for group in self.eigenspaces:
            same[np.ix_(group, group)] = 1.0
        return same

    @cached_property
    def eigenspaces(self) -> tuple[tuple[int, ...], ...]:
        """The modes that can be learned, those together that no moment tells apart."""
        moments = self.drive, self.summary, self.query_eigenvalues
        return self.grouped(*map(distinct_ranks, moments))

    def require_order(self, claim: str) -> None:
        """Raise where the in-order path is not claimed, because the two orders disagree."""
        if not self.orders_agree:
            by_drop = self.order[np.argsort(-self.drop[self.order], kind="stable")]
            raise TheoryDoesNotApply(
                f"{claim} needs the order of the drives and that of the drops to agree (T17): here "
                f"modes escape zero in the order {self.order.tolist()} but are stable in the order "
                f"{by_drop.tolist()}, so that a learned head may rotate to another eigenvector; "
                "fixed_points, saddle_graph and minimum still hold"
            )


def scalar_law(task: object) -> AbstractTask:
    """The task itself, where it is a law of scalar labels."""
    law = population_law(task)
    if law.has_vector_labels:
        raise TheoryDoesNotApply(
            f"the modes of T17 are those of scalar labels, and those of {law!r} are vectors; "
            "minimum still holds, and coupled_modes has the modes of its linear transformer (T15)"
        )
    return law


def modes(task: object) -> Modes:
    r"""The modes of a task whose moments share their eigenvectors (T17).

    Any task of scalar labels will do: $c_d$, $b_d$ and $\kappa_d$ are its moments (T3) along its
    `common_basis`. Random context lengths enter through $E[1/N]$.

    >>> from saddlescope.task import InContextRegression
    >>> of_task = modes(InContextRegression([.4, .3, .2, .1], context_length=31))
    >>> of_task.amplitude.round(3).tolist()
    [2.246, 2.925, 4.189, 7.381]
    >>> of_task.orders_agree
    True
    """
    law = scalar_law(task)
    basis = law.common_basis
    if basis is None:
        raise TheoryDoesNotApply(
            "the moments of the task share no eigenvectors, since its covariances of inputs, tasks "
            "and queries, and their fourth moment, do not commute: no modes learn each by itself, "
            f"and in no order that is known; {_HOLDS}"
        )
    moments = law.moments()
    drive, summary, query = (
        _diagonal(matrix, basis) for matrix in (moments.drive, moments.summary, moments.query)
    )
    if (drive < 0).any():
        raise TheoryDoesNotApply(
            "T17 is written for drives that are not negative, and "
            f"{law!r} has {drive.min():.3g}; {_HOLDS}"
        )
    # A direction that no input or no query takes has no drive, but for rounding.
    drive[summary * query == 0] = 0.0
    for array in (drive, summary, query):
        array.setflags(write=False)
    return Modes(basis, query, summary, drive, moments.label_power)


def _diagonal(matrix: Float[np.ndarray, "D D"], basis: Float[np.ndarray, "D D"]) -> FloatArray:
    rotated = basis.T @ matrix @ basis
    values: FloatArray = rotated.diagonal().copy()
    # Along coordinate axes nothing is rounded, and the smallest entry is meant.
    if np.count_nonzero(rotated - np.diag(values)):
        values[np.abs(values) < ROUNDING * np.abs(values).max()] = 0.0
    return values
