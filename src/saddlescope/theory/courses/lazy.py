"""How a model would learn if its kernel never changed: the lazy limit of linear attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention
from saddlescope.checks import FloatArray, real_array
from saddlescope.theory.landscape._fixed_points import minimum
from saddlescope.theory.parametrisation import (
    GivenWeights,
    population_law,
    scaled_weights,
    summarised_model,
)


@dataclass(frozen=True, eq=False, repr=False)
class LazyCourse(BriefRepr):
    r"""A sum of exponentials, $L(t) = L_* + \sum_n p_n e^{-2 r_n t}$.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(5.).weights(model, task, seed=0)
    >>> round(ss.theory.lazy_course(model, task, weights).least_loss, 4)
    0.0617
    """

    parts: Float[np.ndarray, " n"]
    """$p_n$: the excess loss in each of the D² eigenvectors of the kernel."""
    rates: Float[np.ndarray, " n"]
    """$r_n$."""
    least_loss: float

    def loss(self, times: object) -> Float[np.ndarray, " T"]:
        """L at each of `times[T]`."""
        time = real_array("times", times, (None,))
        decay: FloatArray = np.exp(-2 * np.outer(time, self.rates)) @ self.parts
        return self.least_loss + decay

    @property
    def initial_rate(self) -> float:
        """How fast the logarithm of the excess loss falls at the start, where it is exact."""
        return float(2 * self.parts @ self.rates / self.parts.sum())


def lazy_course(model: AbstractAttention, task: object, weights: GivenWeights) -> LazyCourse:
    r"""The course of a model linearised in its weights around where they start.

    $\mathrm{vec}(\dot W) = K\,\mathrm{vec}(G)$ with $G = B(W_* - W)\Lambda_q$ (T3) and the kernel
    $K = JJ^\top$ of the effective map's derivative J by the weights (`weights` of one seed). Large
    weights of many heads hardly move before the loss is gone, so that K hardly changes: the lazy
    end of the initialisation scale (section 4). For any covariances, in flow time.

    >>> from saddlescope.attention import RandomStart, SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=4)
    >>> course = lazy_course(model, task, RandomStart(10.).weights(model, task, seed=0))
    >>> course.loss([0, .2, 40]).round(3).tolist()
    [626.269, 0.155, 0.062]
    """
    linear, law = summarised_model(model), population_law(task)
    start = scaled_weights(model, law, weights)
    moments, best = law.moments(), minimum(law)
    unit = np.eye(law.dimension**2).reshape(-1, law.dimension, law.dimension)
    slopes = [linear.pull_back(start, force) for force in unit]
    derivative = np.stack(
        [np.concatenate([array.ravel() for array in slope.values()]) for slope in slopes]
    )
    values, vectors = np.linalg.eigh(np.kron(moments.summary, moments.query))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    # With W rather than B^½WΛ^½ as coordinates the kernel times the curvature is not symmetric.
    rates, directions = np.linalg.eigh(root @ (derivative @ derivative.T) @ root)
    # Zero but for rounding, of either sign: where few heads leave directions that no weight moves.
    rates[rates <= rates.size * np.finfo(float).eps * rates.max()] = 0.0
    missing = (linear.effective_map(start) - best.effective_map).ravel()
    return LazyCourse((directions.T @ (root @ missing)) ** 2, rates, best.loss)
