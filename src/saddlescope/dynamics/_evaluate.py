"""The loss of a recorded path on another task than it was trained on."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.attention.base import AbstractAttention, AbstractLinearAttention, Weights
from saddlescope.checks import FloatArray
from saddlescope.dynamics.risk import AbstractRisk, make_risk
from saddlescope.errors import InvalidInput
from saddlescope.trajectory import Trajectory


def evaluate(trajectory: Trajectory, task: Any) -> FloatArray:
    """The loss of every recorded point of a run on a task, [S, T].

    Exact on a law (linear attention), the mean square on `Prompts`.
    """
    names = list(trajectory.setting.model.axes)
    if not set(names) <= set(trajectory.dataset):
        raise InvalidInput("record.weights", False, "only recorded weights can be evaluated")
    weights = {name: trajectory.dataset[name].to_numpy() for name in names}
    with jax.enable_x64(True):
        return evaluate_path(trajectory.setting.model, task, weights)


def evaluate_path(model: AbstractAttention, task: Any, weights: Weights) -> FloatArray:
    """The loss of weights `[S, T, …]` on a task; to be used within 64-bit JAX."""
    risk, basis = make_risk(model, task)
    turned = weights
    if basis is not None and isinstance(model, AbstractLinearAttention):
        turned = model.rotate(weights, basis)
    arrays = jax.tree.map(jnp.asarray, (risk, turned))
    return np.asarray(_losses(model, *arrays))


@eqx.filter_jit
def _losses(model: AbstractAttention, risk: AbstractRisk, weights: Weights) -> Any:
    # One record after another: all at once would hold every prompt's prediction of each.
    return jax.lax.map(lambda row: jax.lax.map(lambda at: risk.loss(model, at), row), weights)
