"""How much of a start of merged attention grows: silent alignment (T10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlescope.attention import AbstractAttention, MergedAttention
from saddlescope.checks import number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.parametrisation import (
    check_blocks,
    is_merged,
    normalised_weights,
    population_law,
)


@dataclass(frozen=True)
class InitialGrowth:
    """What the reduced flow of merged attention needs to know of its start."""

    amplitude: float
    """s(0), the part that grows."""
    scale: float
    """w, the length of the values."""
    rest: float
    """The squared length of the part that does not grow."""


def alignment(
    task: object, weights: Mapping[str, Any], *, model: AbstractAttention | None = None
) -> float:
    r"""The part of merged weights that grows, s(0) of T10.

    $s(0) = \sum_i\frac14(v_i + \langle U_i, m\rangle)^2$ with
    $m = \Lambda\Sigma_w\Lambda_q$ over its norm, the direction of silent alignment (T10).
    `weights` are `v[H]`, `U[H, D, D]` of one seed; `model` only where it is not
    `MergedAttention` with normalisation.

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression("white:2", context_length=31)
    >>> round(alignment(task, {"v": [.1], "U": [np.eye(2) * .1 / 2**.5]}), 6)
    0.01
    """
    return _from_weights(task, weights, model).amplitude


def initial_growth(
    task: object,
    init_scale: float | None,
    weights: Mapping[str, Any] | None,
    model: AbstractAttention | None,
) -> InitialGrowth:
    """The start that one of the papers' scale has on average, or that given weights have."""
    if (init_scale is None) == (weights is None):
        raise InvalidInput("init_scale", init_scale, "give it or weights, one of the two")
    if weights is not None:
        return _from_weights(task, weights, model)
    law = population_law(task)
    gain = 1.0
    if model is not None:
        check_blocks(_merged(model), law)
        gain = model.gain(law.fixed_length)
    scale = number("init_scale", init_scale, above=0.0) * gain**0.5
    amplitude = scale**2 * (1 + 1 / law.dimension**2) / 4
    return InitialGrowth(amplitude, scale, 2 * scale**2 - 2 * amplitude)


def _from_weights(
    task: object, weights: Mapping[str, Any], model: AbstractAttention | None
) -> InitialGrowth:
    found = modes(task)
    if model is None:
        given = isinstance(weights, Mapping) and np.ndim(weights.get("v", 0)) == 1
        model = MergedAttention(max(len(weights["v"]), 1) if given else 1)
    start = normalised_weights(_merged(model), task, weights)
    if not found.order.size:
        raise TheoryDoesNotApply("the task has no drive: nothing grows (T10)")
    direction = (found.basis * found.drive) @ found.basis.T / np.linalg.norm(found.drive)
    along = np.tensordot(start["U"], direction, axes=2)
    amplitude = float(((start["v"] + along) ** 2).sum() / 4)
    total = float((start["v"] ** 2).sum() + (start["U"] ** 2).sum())
    scale = float(np.linalg.norm(start["v"]))
    return InitialGrowth(amplitude, scale, max(total - 2 * amplitude, 0.0))


def _merged(model: AbstractAttention) -> AbstractAttention:
    if not is_merged(model):
        raise InvalidInput(
            "model", model, "must be merged; for separate attention see predict_staircase"
        )
    return model
