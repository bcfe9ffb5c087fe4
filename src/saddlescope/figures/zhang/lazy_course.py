"""How a model would learn if its kernel never changed: the lazy limit of linear attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlescope.attention import AbstractLinearAttention
from saddlescope.checks import FloatArray
from saddlescope.task import InContextRegression
from saddlescope.theory import minimum


@dataclass(frozen=True, eq=False)
class LazyCourse:
    r"""A sum of exponentials, $L(t) = L_* + \sum_n p_n e^{-2 r_n t}$."""

    parts: FloatArray
    """$p_n$: the share of the excess loss in each eigenvector of the kernel, [D²]."""
    rates: FloatArray
    """$r_n$, [D²]."""
    least_loss: float

    def loss(self, time: FloatArray) -> FloatArray:
        """L at each time, [T]."""
        decay: FloatArray = np.exp(-2 * np.outer(time, self.rates)) @ self.parts
        return self.least_loss + decay

    @property
    def initial_rate(self) -> float:
        """How fast the logarithm of the excess loss falls at the start, where it is exact."""
        return float(2 * self.parts @ self.rates / self.parts.sum())


def lazy_course(
    task: InContextRegression, model: AbstractLinearAttention, weights: Mapping[str, Any]
) -> LazyCourse:
    r"""The course of a model linearised in its weights around where they start.

    $\mathrm{vec}(\dot W) = K\,\mathrm{vec}(G)$ with $G = B(W_* - W)\Lambda_q$ (T3) and the kernel
    $K = JJ^\top$ of the effective map's derivative J by the weights (`weights` of one seed). Large
    weights hardly move before the loss is gone, so that K hardly changes.
    """
    dimension, moments, best = task.dimension, task.moments(), minimum(task)
    unit = np.eye(dimension**2).reshape(-1, dimension, dimension)
    slopes = [model.pull_back(dict(weights), force) for force in unit]
    derivative = np.stack(
        [np.concatenate([array.ravel() for array in slope.values()]) for slope in slopes]
    )
    values, vectors = np.linalg.eigh(np.kron(moments.summary, moments.query))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    # With W rather than B^½WΛ^½ as coordinates the kernel times the curvature is not symmetric.
    rates, directions = np.linalg.eigh(root @ (derivative @ derivative.T) @ root)
    missing = (model.effective_map(dict(weights)) - best.effective_map).ravel()
    return LazyCourse((directions.T @ (root @ missing)) ** 2, rates, best.loss)
