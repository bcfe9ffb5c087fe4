"""The shape of the loss at the fixed points: its index and its Hessian (T16)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from saddlescope.attention import AbstractAttention
from saddlescope.checks import number, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.theory.landscape._singular_modes import any_modes
from saddlescope.theory.landscape._weight_loss import WeightLoss
from saddlescope.theory.parametrisation import GivenWeights, population_law

_LARGEST_DIMENSION = 8
# An eigenvalue counts as zero below this share of the largest: rounding leaves some 1e-15 of it.
NEGLIGIBLE = 1e-9


def saddle_index(task: object, subset: Iterable[int], rank: int = 1) -> int:
    r"""How many directions lead down at second order from the minimal-norm weights of M(S) (T16).

    One for each pair $i \in S$, $d \notin S$ with $\Delta_d > \Delta_i$, since a head can turn
    from i to d; and at rank R one for each free pair of a head in use and each $d \notin S$, since
    its value has already grown. It holds for any covariances (T19).

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> saddle_index(task, [0, 1]), saddle_index(task, [2, 3])
    (0, 4)
    """
    task_modes = any_modes(task)
    membership = task_modes.membership([task_modes.subset(subset)])
    return int(task_modes.saddle_index(membership, whole_number("rank", rank))[0])


def hessian(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, "n n"]:
    """The Hessian of the population loss (T3) at given weights, by automatic differentiation.

    For any covariances and D up to 8. Rows follow the weights in the order of `model.shapes`,
    each array flattened in C order. `weights` are those of one seed.

    >>> from saddlescope.attention import MergedAttention
    >>> from saddlescope.task import InContextRegression
    >>> from saddlescope.theory import minimal_norm_weights
    >>> task, model = InContextRegression([.4, .3], context_length=31), MergedAttention(heads=1)
    >>> zero = minimal_norm_weights(model, task, [])
    >>> np.linalg.eigvalsh(hessian(model, task, zero)).round(4).tolist()
    [-0.3672, 0.0, 0.0, 0.0, 0.3672]
    """
    law = population_law(task)
    if law.dimension > _LARGEST_DIMENSION:
        raise InvalidInput(
            "dimension", law.dimension, f"Hessians are taken up to D = {_LARGEST_DIMENSION}"
        )
    return WeightLoss.at(model, task, weights).hessian()


def hessian_index(
    model: AbstractAttention, task: object, weights: GivenWeights, tolerance: float = NEGLIGIBLE
) -> int:
    """The number of negative eigenvalues of the Hessian at given weights.

    An eigenvalue counts as zero below `tolerance` times the largest in size; rounding leaves
    exact zeros some 1e-15 of it.

    T16 counts them at the fixed points.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> from saddlescope.theory import minimal_norm_weights
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> hessian_index(model, task, minimal_norm_weights(model, task, [1]))
    1
    """
    margin = number("tolerance", tolerance, at_least=0.0)
    eigenvalues = np.linalg.eigvalsh(hessian(model, task, weights))
    return int((eigenvalues < -margin * np.abs(eigenvalues).max()).sum())
