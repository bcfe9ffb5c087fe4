"""The loss of a path of weights on any task."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.checks import FloatArray
from saddlescope.dynamics._frame import Frame
from saddlescope.precision import with_float64
from saddlescope.risk import AbstractRisk
from saddlescope.running.programs import compiled
from saddlescope.task import AbstractData


@with_float64
def evaluate_path(
    model: AbstractAttention, task: AbstractData, weights: Weights, frame: Frame | None = None
) -> FloatArray:
    """The loss of weights `[S, T, …]` on a task, in double precision, where told in a `frame`."""
    objective = model.objective(task)
    turned = {name: np.asarray(array, dtype=float) for name, array in weights.items()}
    if objective.basis is not None and isinstance(model, AbstractLinearAttention):
        turned = model.rotate(turned, objective.basis)
    risk, (seeds, points) = objective.risk, next(iter(turned.values())).shape[:2]
    larger = None if frame is None else risk.padded(frame.dimension)
    if frame is not None and larger is not None:
        model, risk, turned = frame.model, larger, frame.enlarge(turned)
    arrays = jax.tree.map(jnp.asarray, (risk, turned))
    return np.asarray(_losses(model, *arrays))[:seeds, :points]


@compiled
def _losses(model: AbstractAttention, risk: AbstractRisk, weights: Weights) -> Float[Array, "S T"]:
    # One record after another: all at once would hold every prompt's prediction of each.
    return jax.lax.map(lambda row: jax.lax.map(lambda at: risk.loss(model, at), row), weights)
