"""The loss of a path of weights on any task."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.checks import FloatArray
from saddlescope.dynamics._frame import RecordShape
from saddlescope.precision import with_float64
from saddlescope.risk import AbstractRisk
from saddlescope.running.programs import compiled
from saddlescope.task import AbstractData


@with_float64
def evaluate_path(
    model: AbstractAttention, task: AbstractData, weights: Weights, shape: RecordShape | None = None
) -> FloatArray:
    """The loss of weights `[S, T, …]` on a task, in float64; computed in `shape` if given."""
    objective = model.objective(task)
    weights = {name: np.asarray(array, dtype=float) for name, array in weights.items()}
    if objective.basis is not None and isinstance(model, AbstractLinearAttention):
        weights = model.rotate(weights, objective.basis)
    risk, (seeds, points) = objective.risk, next(iter(weights.values())).shape[:2]
    larger = None if shape is None else risk.padded(shape.dimension)
    if shape is not None and larger is not None:
        model, risk, weights = shape.model, larger, shape.enlarge(weights)
    arrays = jax.device_put((risk, weights))
    return np.asarray(_losses(model, *arrays))[:seeds, :points]


@compiled
def _losses(model: AbstractAttention, risk: AbstractRisk, weights: Weights) -> Float[Array, "S T"]:
    # One record at a time: all at once would hold the predictions of every prompt for each.
    return jax.lax.map(lambda row: jax.lax.map(lambda at: risk.loss(model, at), row), weights)
