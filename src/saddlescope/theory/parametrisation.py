"""Which theory speaks of a model: that of merged or that of separate keys and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saddlescope.attention import (
    AbstractAttention,
    AbstractLinearAttention,
    Parametrisation,
    Weights,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AbstractTask, InContextRegression, Prompts, Statistics


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


def regression_law(task: object) -> InContextRegression:
    """The task itself, where it is in-context regression."""
    law = population_law(task)
    if not isinstance(law, InContextRegression):
        raise TheoryDoesNotApply(
            f"the modes of T17 are those of InContextRegression, not of {type(law).__name__}; "
            "minimum, hessian and descent_drift still hold"
        )
    return law


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


def is_merged(model: object) -> bool:
    """Whether the theory of merged keys and queries speaks of the model; else that of separate."""
    kind = linear_model(model).parametrisation
    if kind is None:
        raise TheoryDoesNotApply(
            f"the theory knows merged and separate linear attention, not {type(model).__name__}; "
            "the population loss (T3) still holds for its effective map"
        )
    return kind is Parametrisation.MERGED


def one_seed(model: AbstractAttention, weights: Mapping[str, Any], dimension: int) -> Weights:
    """Checked weights of a single seed."""
    checked = model.check_weights(weights, dimension)
    name, shape = next(iter(model.shapes(dimension).items()))
    if checked[name].ndim > len(shape):
        raise InvalidInput(
            f"weights[{name!r}].shape", checked[name].shape, f"must be {shape}: give one seed"
        )
    return checked


def normalised_weights(
    model: AbstractAttention, task: AbstractTask, weights: Mapping[str, Any]
) -> Weights:
    r"""The weights of the normalised attention that computes the same (section 0).

    A model of gain g with weights $w$ computes what the normalised one computes with
    $w\,g^{1/\text{degree}}$. The networks of T4 are given as the attention they are equivalent to.
    """
    checked = linear_model(model).to_attention(one_seed(model, weights, task.dimension))
    scale = model.gain(task.fixed_length) ** (1 / model.degree)
    return {name: scale * array for name, array in checked.items()}
