"""Which theory speaks of a model: that of merged or that of separate keys and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from saddlescope.attention import (
    AbstractAttention,
    AbstractLinearAttention,
    Parametrisation,
    Weights,
)
from saddlescope.checks import FloatArray, real_array
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AbstractTask, Prompts, Statistics

GivenWeights: TypeAlias = Mapping[str, ArrayLike]
"""Named weights as a user gives them."""

_LARGEST_START = 1e75
# What odd moments that vanish may leave, of the largest moment.
_ROUNDING = 1e-12


def population_law(task: object) -> AbstractTask:
    """The task itself, where it is a law whose moments are known."""
    if isinstance(task, Prompts | Statistics):
        raise TheoryDoesNotApply(
            f"the theory needs a law with known moments, and {task!r} is given data; training on "
            "it still goes by its own statistics and flow conserves the same quantities (T6, T14)"
        )
    if not isinstance(task, AbstractTask):
        raise InvalidInput("task", task, "must be a task such as InContextRegression")
    return task


def check_size(field: str, value: ArrayLike) -> None:
    """Raise where the fourth power of a start is too large for float64."""
    if (np.abs(value) > _LARGEST_START).any():
        raise InvalidInput(field, value, f"must be at most {_LARGEST_START:g} in size")


def given_times(times: object, *, rising: bool = True) -> FloatArray:
    """Times that are not negative, `[T]`; `rising` ones are one at least."""
    time = real_array("times", times, (None,))
    if rising and (not time.size or (time < 0).any() or (np.diff(time) < 0).any()):
        raise InvalidInput("times", times, "must be rising and not negative")
    if (time < 0).any():
        raise InvalidInput("times", times, "must not be negative")
    return time


def linear_model(model: object) -> AbstractLinearAttention:
    """The model itself, where its prediction is that of an effective map."""
    if isinstance(model, AbstractLinearAttention) and model.is_linear:
        return model
    if isinstance(model, AbstractAttention):
        raise TheoryDoesNotApply(
            f"the theory knows linear attention, not {model!r}; the stages of its loss and the "
            "algorithm that it runs can still be measured"
        )
    raise InvalidInput("model", model, "must be an attention model")


def summarised_model(model: object) -> AbstractLinearAttention:
    """The model itself, where its effective map is all that trains."""
    linear = linear_model(model)
    if not linear.is_summarised:
        raise TheoryDoesNotApply(
            f"all blocks of {model!r} train, and its effective map is one part of what they make "
            "(T5); take blocks='reduced', or see one_head and block_optimum (T6, T10)"
        )
    return linear


def is_merged(model: object) -> bool:
    """Whether the theory of merged keys and queries speaks of the model; else that of separate."""
    kind = linear_model(model).parametrisation
    if kind is None:
        raise TheoryDoesNotApply(
            f"the theory knows merged and separate linear attention, not {type(model).__name__}; "
            "the population loss (T3) still holds for its effective map"
        )
    return kind is Parametrisation.MERGED


def check_blocks(model: AbstractAttention, task: object) -> None:
    r"""Raise where a model has blocks that start at zero and do not stay there (T5).

    They stay where odd moments of the task vanish, so that the features $\beta x_q^\top$ know
    nothing of the others, and the others nothing of the label (Z App. C.1, E.1).
    """
    if linear_model(model).blocks == "reduced":
        return
    law = population_law(task)
    try:
        statistics = law.block_statistics()
    except InvalidInput as reason:
        raise TheoryDoesNotApply(f"all blocks train, and of the task it says: {reason}") from None
    size = law.dimension
    others = np.r_[: size**3, size**3 + size**2 : size**3 + size**2 + size]
    inside = np.r_[size**3 : size**3 + size**2]
    second, cross = statistics.second_moment, statistics.cross_moment
    coupled = np.abs(second[np.ix_(others, inside)]).max() > _ROUNDING * np.abs(second).max()
    if coupled or np.abs(cross[others]).max() > _ROUNDING * np.abs(cross).max():
        raise TheoryDoesNotApply(
            f"all blocks of {model!r} learn on {law!r}, whose odd moments do not vanish, so that "
            "its effective map is not all there is (T5); see one_head and block_optimum (T6, T10)"
        )


def given_heads(weights: object) -> int:
    """How many heads weights of merged attention have; 1 where they are no such weights."""
    if not isinstance(weights, Mapping) or "v" not in weights:
        return 1
    shape = real_array("weights['v']", weights["v"]).shape
    return max(shape[-1], 1) if shape else 1


def one_seed(model: AbstractAttention, weights: GivenWeights, dimension: int) -> Weights:
    """Checked weights of a single seed."""
    checked = model.check_weights(weights, dimension)
    name, shape = next(iter(model.shapes(dimension).items()))
    if checked[name].ndim > len(shape):
        raise InvalidInput(
            f"weights[{name!r}].shape", checked[name].shape, f"must be {shape}: give one seed"
        )
    return checked


def normalised_ensemble(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> tuple[Weights, bool]:
    """As `normalised_weights`, of one seed or of many: with seeds in front, and if they had any."""
    check_blocks(model, task)
    law = population_law(task)
    checked = linear_model(model).check_weights(weights, law.dimension)
    scale = model.gain(law.fixed_length) ** (1 / model.degree)
    name, shape = next(iter(model.shapes(law.dimension).items()))
    has_seeds = checked[name].ndim > len(shape)
    scaled = {key: scale * (one if has_seeds else one[None]) for key, one in checked.items()}
    return linear_model(model).to_attention(scaled), has_seeds


def effective_maps(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, "S D D"]:
    """The effective map of every seed, of which all weights have an axis in front."""
    named, _ = normalised_ensemble(model, task, weights)
    if is_merged(model):
        return np.einsum("sh,shde->sde", named["v"], named["U"])
    size = named["k"].shape[-1]
    keys, queries = (named[name].reshape(len(named[name]), -1, size) for name in "kq")
    values = np.repeat(named["v"], keys.shape[1] // named["v"].shape[1], axis=1)
    return np.swapaxes(values[:, :, None] * keys, 1, 2) @ queries


def scaled_weights(model: AbstractAttention, task: object, weights: GivenWeights) -> Weights:
    r"""The model's weights that compute without its gain what the given ones compute (section 0).

    They are $w\,g^{1/\text{degree}}$ for a gain of g, and move in flow time.
    """
    law = population_law(task)
    checked = one_seed(linear_model(model), weights, law.dimension)
    scale = model.gain(law.fixed_length) ** (1 / model.degree)
    return {name: scale * array for name, array in checked.items()}


def normalised_weights(model: AbstractAttention, task: object, weights: GivenWeights) -> Weights:
    """The weights of the normalised attention that computes the same (T4, section 0)."""
    check_blocks(model, task)
    return linear_model(model).to_attention(scaled_weights(model, task, weights))
