"""What a model computes in context at a fixed point, and the algorithms it stands beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task import Prompts, Spectrum
from saddlescope.theory.landscape._fixed_points import minimum
from saddlescope.theory.landscape._singular_modes import any_modes


@dataclass(frozen=True, eq=False, repr=False)
class InContextPredictor(BriefRepr):
    r"""The function $\hat y = \beta^\top W x_q$ that linear attention computes (section 2).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> predictor = ss.theory.in_context_predictor(task)
    >>> predictor(task.sample(3)).shape
    (3,)
    """

    effective_map: Float[np.ndarray, "D D"]

    def __call__(self, prompts: Prompts) -> Float[np.ndarray, " P"]:
        """The prediction for each prompt's query."""
        check_prompts(prompts, len(self.effective_map))
        return ((prompts.summary @ self.effective_map) * prompts.query).sum(1)


def in_context_predictor(
    task: object, learned: int | Iterable[int] | None = None
) -> InContextPredictor:
    r"""What the model computes in context once it has learned some modes (section 5; Z eq. 16, 27).

    $\hat y = \beta^\top W_S x_q$, with $W_S = \sum_{d\in S}\xi_d e_d e_d^\top$ where covariances
    commute and that of T19 else. `learned` is the number m of modes that training has learned (the
    point $M_m$ of `plateau_losses`), or the modes themselves; without it all. As N grows $M_m$ of
    the papers' case becomes principal component regression with m components, and the minimum
    least squares.

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> in_context_predictor(task, learned=2)(task.sample(3, seed=0)).shape
    (3,)
    """
    if learned is None:
        return InContextPredictor(minimum(task).effective_map)
    task_modes = any_modes(task)
    if isinstance(learned, Iterable) and getattr(learned, "ndim", 1) != 0:
        members = list(task_modes.subset(learned))
    else:
        count = whole_number("learned", learned, at_least=0)
        if count > len(task_modes.order):
            raise InvalidInput("learned", learned, f"the task has {len(task_modes.order)} modes")
        task_modes.require_order("the point that has learned so many modes")
        members = task_modes.order[:count].tolist()
    return InContextPredictor(task_modes.effective_map(members))


def principal_component_regression(
    prompts: Prompts, spectrum: object, components: int
) -> Float[np.ndarray, " P"]:
    """Least squares, in each prompt, on the leading principal components of the inputs.

    `spectrum` is the inputs' covariance (a `Spectrum`, eigenvalues or a matrix [D, D]), whose first
    `components` eigenvectors are kept. With all D of them it is `least_squares`.

    One of the algorithms of section 5.

    >>> from saddlescope.task import InContextRegression
    >>> prompts = InContextRegression([.4, .3, .2, .1], context_length=31).sample(3, seed=0)
    >>> principal_component_regression(prompts, [.4, .3, .2, .1], components=2).shape
    (3,)
    """
    covariance = Spectrum.make(spectrum)
    check_prompts(prompts, covariance.dimension)
    count = whole_number("components", components, at_least=0)
    if count > covariance.dimension:
        raise InvalidInput("components", components, f"must be at most D = {covariance.dimension}")
    leading = covariance.basis[:, :count]
    return regress(prompts.x[:, :-1] @ leading, prompts.y[:, :-1], prompts.query @ leading)


def least_squares(prompts: Prompts) -> Float[np.ndarray, " P"]:
    """Ordinary least squares in each prompt, of least norm where the context does not decide.

    One of the algorithms of section 5.

    >>> from saddlescope.task import InContextRegression
    >>> prompts = InContextRegression([.4, .3, .2, .1], context_length=31).sample(3, seed=0)
    >>> bool(np.allclose(least_squares(prompts), prompts.target))
    True
    """
    check_prompts(prompts, None)
    return regress(prompts.x[:, :-1], prompts.y[:, :-1], prompts.query)


def regress(
    inputs: Float[np.ndarray, "P N m"],
    labels: Float[np.ndarray, "P N"],
    query: Float[np.ndarray, "P m"],
    penalty: float = 0.0,
) -> Float[np.ndarray, " P"]:
    r"""$x_q^\top w$ with $w$ least in $\sum_n (y_n - w^\top x_n)^2 + \text{penalty}\,\|w\|^2$."""
    count = inputs.shape[2]
    if count == 0:
        return np.zeros(len(inputs))
    # Pairs beyond a prompt's own length are zero and change nothing.
    if penalty > 0:
        moment = inputs.mT @ inputs + penalty * np.eye(count)
        coefficients = np.linalg.solve(moment, inputs.mT @ labels[:, :, None])
    else:
        coefficients = np.linalg.pinv(inputs) @ labels[:, :, None]
    return (coefficients[:, :, 0] * query).sum(1)


def check_prompts(prompts: object, dimension: int | None) -> None:
    """That they are `Prompts`, of a dimension where one is asked for."""
    if not isinstance(prompts, Prompts):
        raise InvalidInput("prompts", prompts, "must be Prompts")
    if dimension is not None and prompts.dimension != dimension:
        raise InvalidInput("prompts.dimension", prompts.dimension, f"must be {dimension}")
