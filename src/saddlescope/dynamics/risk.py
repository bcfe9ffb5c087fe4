"""The loss that is descended: on the population, or on the sufficient statistics of prompts."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from saddlescope.attention.base import AbstractAttention, Array, Weights, apply_to_rows
from saddlescope.attention.merged import unvectorise, vectorise
from saddlescope.checks import FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.task.base import AbstractTask
from saddlescope.task.prompts import Prompts, Statistics


class AbstractRisk(eqx.Module):
    r"""A loss of the effective map $W$ and its force $G = -\frac12\partial L/\partial W$ (T3)."""

    gain: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        """The loss at an effective map."""

    @abc.abstractmethod
    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        """Minus half the gradient of the loss with respect to the effective map."""

    @abc.abstractmethod
    def best_map(self, capacity: int) -> FloatArray | None:
        """The map of least loss among those of rank `capacity`, [D, D], None if not known."""

    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        """The loss of a model's weights."""
        return self.map_loss(model.effective_map(weights, self.gain))

    def velocity(self, model: AbstractAttention, weights: Weights, rate: Any) -> Weights:
        r"""$-\frac12\partial L/\partial w$ for every weight, times `rate`.

        The rate multiplies the small force rather than the weights' velocities: XLA then keeps a
        whole step in one loop (measured: 9 µs a step of the flow against 15).
        """
        force = self.map_force(model.effective_map(weights, self.gain))
        return model.pull_back(weights, (rate * self.gain) * force)


class DiagonalRisk(AbstractRisk):
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


class DenseRisk(AbstractRisk):
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


class StatisticsRisk(AbstractRisk):
    """The mean-square loss of prompts by way of their sufficient statistics (T6)."""

    gain: Any
    label_power: Any
    cross_moment: Any
    second_moment: Any

    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        vector = vectorise(effective_map)
        response = apply_to_rows(vector[None], self.second_moment)[0]
        return self.label_power + (vector * (response - 2 * self.cross_moment)).sum()

    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        response = apply_to_rows(vectorise(effective_map)[None], self.second_moment)[0]
        return unvectorise(self.cross_moment - response)

    def best_map(self, capacity: int) -> FloatArray | None:
        if capacity**2 < len(self.cross_moment):
            return None
        best, *_ = np.linalg.lstsq(self.second_moment, self.cross_moment, rcond=None)
        return np.asarray(unvectorise(best))


def make_risk(
    model: AbstractAttention, task: AbstractTask | Prompts | Statistics
) -> tuple[AbstractRisk, FloatArray | None]:
    """The risk of a model on a task, and the basis in whose coordinates it is written.

    The basis is None where the coordinates are the user's own.
    """
    if isinstance(task, Prompts):
        task = task.statistics()
    if isinstance(task, Statistics):
        return StatisticsRisk(
            gain=np.float64(model.gain(task.context_length)),
            label_power=np.float64(task.label_power),
            cross_moment=task.cross_moment,
            second_moment=task.second_moment,
        ), None
    if not isinstance(task, AbstractTask):
        raise InvalidInput("task", task, "must be a task, Prompts or Statistics")
    lengths, moments = task.context_length, task.moments()
    gain = np.float64(model.gain(lengths.lengths[0] if lengths.is_fixed else None))
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
