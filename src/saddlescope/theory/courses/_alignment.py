"""How much of a start of merged attention grows, and how its heads turn: silent alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.attention import AbstractAttention, MergedAttention, Weights
from saddlescope.checks import FloatArray, number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory.landscape._modes import modes
from saddlescope.theory.parametrisation import (
    GivenWeights,
    check_blocks,
    check_size,
    given_heads,
    given_times,
    is_merged,
    normalised_ensemble,
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
    task: object, weights: GivenWeights, *, model: AbstractAttention | None = None
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


def early_alignment(
    task: object, weights: GivenWeights, times: object, *, model: AbstractAttention | None = None
) -> Float[np.ndarray, "T H"]:
    r"""Each head's absolute cosine with the drive while merged weights are small (T10).

    With m the direction of silent alignment and c the norm of the drive, $\dot v = c\,u$ and
    $\dot u = c\,v$ for $u = \langle U, m\rangle$; the rest of U stays, so that every head turns to
    m, as $1 - O(e^{-2ct})$. `weights` and `model` are as in `alignment`, `times[T]` not negative.

    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression("white:2", context_length=31)
    >>> start = {"v": [.1], "U": [[[0., .1], [0., 0.]]]}
    >>> early_alignment(task, start, [0, 1, 4]).round(4).tolist()
    [[0.0], [0.8884], [1.0]]
    """
    start, direction, rate = _along_drive(task, weights, model)
    time = given_times(times, rising=False)
    values, along = start["v"], np.tensordot(start["U"], direction, axes=2)
    rest = np.maximum((start["U"] ** 2).sum(axis=(1, 2)) - along**2, 0.0)
    # u(t) and the rest, both over e^(ct), which alone would overflow.
    left = np.exp(-2 * rate * time)[:, None]
    later = (along * (1 + left) + values * (1 - left)) / 2
    length = np.sqrt(later**2 + rest * left)
    cosines = np.zeros_like(later)
    np.divide(np.abs(later), length, out=cosines, where=length > 0)
    return cosines


def ensemble_growth(
    task: object, weights: GivenWeights, model: AbstractAttention
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    """s(0) of every seed, which `weights` have along their first axis, and its `rest`."""
    start, _ = normalised_ensemble(_merged(model), task, weights)
    along = np.tensordot(start["U"], _direction(task)[0], axes=2)
    amplitude = ((start["v"] + along) ** 2).sum(1) / 4
    total = (start["v"] ** 2).sum(1) + (start["U"] ** 2).sum((1, 2, 3))
    return amplitude, np.maximum(total - 2 * amplitude, 0.0)


def initial_growth(
    task: object,
    init_scale: float | None,
    weights: GivenWeights | None,
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
    check_size("init_scale", scale)
    amplitude = scale**2 * (1 + 1 / law.dimension**2) / 4
    return InitialGrowth(amplitude, scale, 2 * scale**2 - 2 * amplitude)


def _from_weights(
    task: object, weights: GivenWeights, model: AbstractAttention | None
) -> InitialGrowth:
    start, direction, _ = _along_drive(task, weights, model)
    along = np.tensordot(start["U"], direction, axes=2)
    amplitude = float(((start["v"] + along) ** 2).sum() / 4)
    total = float((start["v"] ** 2).sum() + (start["U"] ** 2).sum())
    scale = float(np.linalg.norm(start["v"]))
    return InitialGrowth(amplitude, scale, max(total - 2 * amplitude, 0.0))


def _along_drive(
    task: object, weights: GivenWeights, model: AbstractAttention | None
) -> tuple[Weights, FloatArray, float]:
    """Normalised weights, the drive as a matrix of length one, and its length."""
    if model is None:
        model = MergedAttention(given_heads(weights))
    return normalised_weights(_merged(model), task, weights), *_direction(task)


def _direction(task: object) -> tuple[Float[np.ndarray, "D D"], float]:
    """The drive as a matrix of length one, and its length."""
    task_modes = modes(task)
    if not task_modes.order.size:
        raise TheoryDoesNotApply("the task has no drive: nothing grows (T10)")
    rate = task_modes.growth_rate
    return (task_modes.basis * task_modes.drive) @ task_modes.basis.T / rate, rate


def _merged(model: AbstractAttention) -> AbstractAttention:
    if not is_merged(model):
        raise InvalidInput(
            "model", model, "must be merged; for separate attention see predict_staircase"
        )
    return model
