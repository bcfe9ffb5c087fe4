"""The loss that is descended: on the population, on sufficient statistics, or on prompts."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from saddlescope.attention.base import (
    AbstractAttention,
    AbstractLinearAttention,
    Array,
    Weights,
    apply_to_rows,
)
from saddlescope.attention.linear_transformer import LinearTransformer
from saddlescope.attention.merged import unvectorise, vectorise
from saddlescope.checks import FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.task.aligned import AlignedRegression, VectorPrompts
from saddlescope.task.base import AbstractTask
from saddlescope.task.prompts import Prompts, Statistics


class AbstractRisk(eqx.Module):
    """A loss of a model's weights, and which way it falls."""

    gain: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        """The loss of a model's weights."""

    @abc.abstractmethod
    def velocity(self, model: AbstractAttention, weights: Weights, rate: Any) -> Weights:
        r"""$-\frac12\partial L/\partial w$ for every weight, times `rate`."""

    def best_map(self, capacity: int) -> FloatArray | None:
        """The map of least loss among those of rank `capacity`, [D, D], None if not known."""
        return None


class AbstractMapRisk(AbstractRisk):
    r"""A loss of the coefficients $W$ (or θ, T5) and its force $-\frac12\partial L/\partial W$."""

    @abc.abstractmethod
    def map_loss(self, effective_map: Array) -> Float[Array, ""]:
        """The loss at an effective map."""

    @abc.abstractmethod
    def map_force(self, effective_map: Array) -> Array:
        """Minus half the gradient of the loss with respect to the effective map."""

    def loss(self, model: Any, weights: Weights) -> Float[Array, ""]:
        return self.map_loss(model.coefficients(weights, self.gain))

    def velocity(self, model: Any, weights: Weights, rate: Any) -> Weights:
        # The rate multiplies the small force rather than the weights' velocities: XLA then keeps
        # a whole step in one loop (measured: 9 µs a step of the flow against 15).
        force = self.map_force(model.coefficients(weights, self.gain))
        return model.pull_back(weights, (rate * self.gain) * force)


class DiagonalRisk(AbstractMapRisk):
    r"""The population loss in the common basis: $G_{ab} = c_a\delta_{ab} - b_a\kappa_b W_{ab}$."""

    gain: Any
    label_power: Any
    drive: Any
    """diag(c), [D, D]."""
    curvature: Any
    r"""$b_a\kappa_b$, [D, D]."""

    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        gained = effective_map * (self.curvature * effective_map - 2 * self.drive)
        return self.label_power + gained.sum()

    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        return self.drive - self.curvature * effective_map

    def best_map(self, capacity: int) -> FloatArray | None:
        drive, curvature = np.diagonal(self.drive), np.diagonal(self.curvature)
        best = np.divide(drive, curvature, out=np.zeros_like(drive), where=curvature > 0)
        best[np.argsort(-drive * best, kind="stable")[capacity:]] = 0.0
        return np.diag(best)


class DenseRisk(AbstractMapRisk):
    r"""The population loss of covariances that do not commute: $G = C - B W \Lambda_q$."""

    gain: Any
    label_power: Any
    drive: Any
    summary: Any
    query: Any

    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        response = self.summary @ effective_map @ self.query
        return self.label_power + (effective_map * (response - 2 * self.drive)).sum()

    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        return self.drive - self.summary @ effective_map @ self.query

    def best_map(self, capacity: int) -> FloatArray | None:
        if capacity < len(self.drive):
            return None
        summary, query = (np.linalg.pinv(np.asarray(m)) for m in (self.summary, self.query))
        best: FloatArray = summary @ np.asarray(self.drive) @ query
        return best


class StatisticsRisk(AbstractMapRisk):
    """The mean-square loss by way of sufficient statistics (T6), of prompts or of a law."""

    gain: Any
    label_power: Any
    cross_moment: Any
    second_moment: Any

    def map_loss(self, effective_map: Array) -> Float[Array, ""]:
        vector = _as_vector(effective_map)
        response = apply_to_rows(vector[None], self.second_moment)[0]
        return self.label_power + (vector * (response - 2 * self.cross_moment)).sum()

    def map_force(self, effective_map: Array) -> Array:
        response = apply_to_rows(_as_vector(effective_map)[None], self.second_moment)[0]
        force = self.cross_moment - response
        return force if effective_map.ndim == 1 else unvectorise(force)

    def best_map(self, capacity: int) -> FloatArray | None:
        if capacity**2 != len(self.cross_moment):
            return None
        best, *_ = np.linalg.lstsq(self.second_moment, self.cross_moment, rcond=None)
        return np.asarray(unvectorise(best))


class Batch(eqx.Module):
    """Prompts as JAX arrays, with what models ask of them."""

    x: Any
    y: Any
    lengths: Any

    @property
    def summary(self) -> Array:
        """β of every prompt, [P, D]."""
        summed = (self.y[:, None, :-1] @ self.x[:, :-1])[:, 0]
        return summed / self.lengths[:, None]

    @property
    def query(self) -> Array:
        """The query of every prompt, [P, D]."""
        return self.x[:, -1]

    @property
    def target(self) -> Array:
        """The query's target of every prompt, [P], or [P, D] where labels are vectors."""
        return self.y[:, -1]


class PromptRisk(AbstractRisk):
    """The mean-square loss of a model's own predictions on prompts, by autodiff."""

    gain: Any
    prompts: Batch

    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        predicted = model.predict(weights, self.prompts, self.gain)
        # A mean over prompts, and a sum over the entries of a vector label.
        return ((self.prompts.target - predicted) ** 2).sum() / predicted.shape[0]

    def velocity(self, model: AbstractAttention, weights: Weights, rate: Any) -> Weights:
        return _descend(self, model, weights, rate)


class VectorRisk(AbstractRisk):
    r"""The population loss $E\|y_q - p_2 W\hat\Sigma q_1 x_q\|^2$ of vector labels (T15).

    In the eigenbasis U, with $A = q_1 S q_1^\top$ and $M = E[\hat\Sigma A \hat\Sigma]$ (T2):
    $\sum_\alpha s_\alpha - 2 \bar p_\alpha (q_1)_{\alpha\alpha} s_\alpha^2
    + \bar P_\alpha M_{\alpha\alpha}$, where $\bar p$ is the diagonal of $p_2$ and $\bar P$ that of
    $p_2^\top p_2$ for aligned tasks, and their means for independent ones.
    """

    gain: Any
    eigenvalues: Any
    basis: Any
    inverse_length: Any
    tasks: str = eqx.field(static=True)

    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        s, nu = self.eigenvalues, self.inverse_length
        value, query = (self.basis.T @ weights[name] @ self.basis for name in ("p2", "q1"))
        diagonal, power = value.diagonal(), (value**2).sum(0)
        if self.tasks == "independent":
            diagonal, power = diagonal.mean(), power.mean()
        inner = (query**2 * s[None]).sum(1)
        spread = (1 + nu) * s**2 * inner + nu * s * (s * inner).sum()
        drive = diagonal * query.diagonal() * s**2
        return (s - 2 * self.gain * drive + self.gain**2 * power * spread).sum()

    def velocity(self, model: AbstractAttention, weights: Weights, rate: Any) -> Weights:
        return _descend(self, model, weights, rate)


def has_exact_loss(model: AbstractAttention) -> bool:
    """Whether the loss of a model on a law is known exactly."""
    return model.is_linear or (isinstance(model, LinearTransformer) and model.blocks == "reduced")


def make_risk(
    model: AbstractAttention, task: AbstractTask | Prompts | VectorPrompts | Statistics
) -> tuple[AbstractRisk, FloatArray | None]:
    """The risk of a model on a task, and the basis in whose coordinates it is written.

    The basis is None where the coordinates are the user's own.
    """
    if isinstance(model, LinearTransformer) or isinstance(task, AlignedRegression | VectorPrompts):
        return _vector_risk(model, task), None
    if isinstance(task, Prompts) and not model.is_linear:
        batch = Batch(task.x, task.y, task.lengths)
        return PromptRisk(np.float64(model.gain(task.fixed_length)), batch), None
    if not (isinstance(model, AbstractLinearAttention) and model.is_linear):
        raise InvalidInput(
            "task", task, "this model has no exact moments: train it on prompts, task.sample(P)"
        )
    if isinstance(task, Prompts):
        task = task.statistics(model.blocks)
    elif isinstance(task, AbstractTask) and model.blocks == "full":
        task = task.block_statistics()
    if isinstance(task, Statistics):
        if task.blocks != model.blocks:
            raise InvalidInput(
                "task.blocks", task.blocks, f"the model has blocks = {model.blocks!r}"
            )
        return StatisticsRisk(
            gain=np.float64(model.gain(task.fixed_length)),
            label_power=np.float64(task.label_power),
            cross_moment=task.cross_moment,
            second_moment=task.second_moment,
        ), None
    if not isinstance(task, AbstractTask):
        raise InvalidInput("task", task, "must be a task, Prompts or Statistics")
    moments = task.moments()
    gain = np.float64(model.gain(task.fixed_length))
    power = np.float64(moments.label_power)
    basis = task.common_basis
    if basis is None:
        return DenseRisk(gain, power, moments.drive, moments.summary, moments.query), None
    drive, summary, query = (
        ((basis.T @ matrix) * basis.T).sum(1)
        for matrix in (moments.drive, moments.summary, moments.query)
    )
    risk = DiagonalRisk(gain, power, np.diag(drive), np.outer(summary, query))
    return risk, None if np.array_equal(basis, np.eye(len(basis))) else basis


def _vector_risk(model: AbstractAttention, task: Any) -> AbstractRisk:
    if not isinstance(task, AlignedRegression | VectorPrompts):
        raise InvalidInput("task", task, "this model has vector labels: take AlignedRegression")
    if not isinstance(model, LinearTransformer):
        raise InvalidInput("task", task, "its labels are vectors: they need LinearTransformer")
    if isinstance(task, VectorPrompts):
        gain = np.float64(model.gain(task.fixed_length))
        return PromptRisk(gain, Batch(task.x, task.y, task.lengths))
    if model.blocks == "full":
        raise InvalidInput(
            "blocks", model.blocks, "has no exact loss: take reduced blocks, or fresh prompts"
        )
    return VectorRisk(
        gain=np.float64(model.gain(task.fixed_length)),
        eigenvalues=task.spectrum.eigenvalues,
        basis=task.spectrum.basis,
        inverse_length=np.float64(task.context_length.mean_inverse),
        tasks=task.tasks,
    )


def _descend(risk: AbstractRisk, model: AbstractAttention, weights: Weights, rate: Any) -> Weights:
    slope = jax.grad(lambda at: risk.loss(model, at))(weights)
    return {name: (-0.5 * rate) * slope[name] for name in weights}


def _as_vector(effective_map: Array) -> Array:
    return effective_map if effective_map.ndim == 1 else vectorise(effective_map)
