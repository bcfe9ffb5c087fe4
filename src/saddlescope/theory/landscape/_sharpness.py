"""How sharp the loss is along the staircase, and how large a learning rate may be (T21)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.task import AbstractTask
from saddlescope.theory.landscape._fixed_points import (
    minimal_norm_weights,
    minimum,
    plateau_losses,
)
from saddlescope.theory.landscape._hessian_spectrum import (
    HessianSpectrum,
    is_whole,
    merged_spectrum,
    separate_spectrum,
)
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.landscape._weight_loss import WeightLoss
from saddlescope.theory.parametrisation import (
    GivenWeights,
    is_merged,
    population_law,
    summarised_model,
)


@dataclass(frozen=True, eq=False, repr=False)
class StaircaseSharpness(BriefRepr):
    """The sharpness on every plateau that training visits.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> found = ss.theory.staircase_sharpness(model, task)
    >>> found.subsets, round(found.stable_learning_rate, 2)
    (((), (0,), (0, 1)), 1.58)
    """

    subsets: tuple[tuple[int, ...], ...]
    """The eigenvectors that are learned there, counted from 0."""
    sharpness: Float[np.ndarray, " levels"]
    """The largest eigenvalue of the loss's Hessian there."""
    is_numerical: bool
    """Whether they were found by Lanczos' iteration, and not in closed form."""

    @property
    def stable_learning_rates(self) -> Float[np.ndarray, " levels"]:
        """Below which descent rests on each plateau: 2 over the sharpness, infinite without one."""
        rates = np.full(self.sharpness.shape, np.inf)
        return np.divide(2.0, self.sharpness, out=rates, where=self.sharpness > 0)

    @property
    def stable_learning_rate(self) -> float | None:
        """Below which descent rests on all of them; None where nothing bounds it."""
        least = float(self.stable_learning_rates.min())
        return least if np.isfinite(least) else None


def staircase_sharpness(
    model: AbstractAttention, task: object, *, numerical: bool = True
) -> StaircaseSharpness:
    r"""The sharpness on the plateaus of training, and the learning rate that rests on them (T21).

    Descent $W \leftarrow W - \eta\,\partial L/\partial W$ rests at an in-order $M_m$ for $\eta$
    below two over the sharpness. In the papers' case with $N \le 250$ or
    $\lambda_1/\lambda_m \le 25.9$ this is $1/(3c_1\xi_1^{1/3})$ for all $m \ge 1$; zero bounds
    nothing at rank one. Heads of higher rank are filled in the order of learning. In closed form
    for merged attention, and for separate where covariances commute; otherwise by Lanczos'
    iteration at the minimal-norm weights, which the result says, or not at all with
    `numerical=False`.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> found = staircase_sharpness(SeparateAttention(heads=5), task)
    >>> found.sharpness.round(4).tolist(), round(found.stable_learning_rate, 4)
    ([0.0, 1.2573, 1.2573, 1.2573, 1.2573], 1.5907)
    """
    linear, law = summarised_model(model), population_law(task)
    whole = is_whole(linear, law.dimension)
    if is_merged(linear):
        subsets: tuple[tuple[int, ...], ...] = ((), tuple(range(law.dimension)))
        if whole:
            spectra = [merged_spectrum(linear, law, learned) for learned in (False, True)]
            return _in_closed_form(subsets, spectra)
        _require(numerical)
        best = linear.realise(minimum(law).effective_map / model.gain(law.fixed_length))
        zero = {name: np.zeros_like(array) for name, array in best.items()}
        return _by_lanczos(model, law, subsets, [zero, best])
    if law.common_basis is not None:
        task_modes = modes(law)
        task_modes.require_order("the sharpness along the staircase")
        order = [int(mode) for mode in task_modes.order[: linear.capacity(law.dimension)]]
        if whole:
            spectra = [
                separate_spectrum(linear, law, task_modes, order[:count])
                for count in range(len(order) + 1)
            ]
            return _in_closed_form(_in_order(order), spectra)
    else:
        # The fixed points of such tasks are counted by falling drop.
        order = list(range(len(plateau_losses(law, model=model)) - 1))
    _require(numerical)
    subsets = _in_order(order)
    weights = [minimal_norm_weights(model, law, subset) for subset in subsets]
    return _by_lanczos(model, law, subsets, weights)


def sharpness(model: AbstractAttention, task: object, weights: GivenWeights) -> float:
    """The largest eigenvalue of the loss's Hessian at given weights, by Lanczos' iteration.

    For any covariances, any dimension and any linear attention of reduced blocks; numerical, to
    rounding. `weights` are those of one seed.

    T21 has it in closed form at the fixed points.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> from saddlescope.theory import minimal_norm_weights
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> round(sharpness(model, task, minimal_norm_weights(model, task, [0])), 4)
    1.2665
    """
    loss = WeightLoss.at(model, task, weights)
    size = loss.vector.size
    # Every direction has a share in it, and none is an eigenvector by accident.
    start = np.cos(np.arange(size))
    if not loss.hessian_times(start).any():
        return 0.0
    operator = LinearOperator((size, size), matvec=loss.hessian_times, dtype=np.float64)
    largest = eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)
    return max(float(largest[0]), 0.0)


def _in_order(order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """What is learned after 0, 1, 2, … drops."""
    return tuple(tuple(sorted(order[:count])) for count in range(len(order) + 1))


def _require(numerical: bool) -> None:
    if not numerical:
        raise TheoryDoesNotApply(
            "the sharpness along this staircase has no closed form (T21); staircase_sharpness "
            "finds it by Lanczos' iteration"
        )


def _in_closed_form(
    subsets: tuple[tuple[int, ...], ...], spectra: Sequence[HessianSpectrum]
) -> StaircaseSharpness:
    return StaircaseSharpness(subsets, np.array([one.largest for one in spectra]), False)


def _by_lanczos(
    model: AbstractAttention,
    law: AbstractTask,
    subsets: tuple[tuple[int, ...], ...],
    weights: Sequence[GivenWeights],
) -> StaircaseSharpness:
    found: FloatArray = np.array([sharpness(model, law, one) for one in weights])
    return StaircaseSharpness(subsets, found, True)
