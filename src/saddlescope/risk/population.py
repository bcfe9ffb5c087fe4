"""The exact loss on a law, from its moments (T3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights, diagonal_matrix, product, whitened_triples
from saddlescope.checks import FloatArray
from saddlescope.risk.base import AbstractMapRisk, Objective

if TYPE_CHECKING:
    from saddlescope.attention import AbstractLinearAttention


class DiagonalRisk(AbstractMapRisk):
    r"""The population loss in the common basis: $G_{ab} = c_a\delta_{ab} - b_a\kappa_b W_{ab}$."""

    gain: Array
    label_power: Array
    drive: Float[Array, " D"]
    """c."""
    summary: Float[Array, " D"]
    """b."""
    query: Float[Array, " D"]
    """κ."""

    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        gained = (effective_map * (self._curvature() * effective_map)).sum()
        return self.label_power + gained - 2 * (self.drive * effective_map.diagonal()).sum()

    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        return diagonal_matrix(self.drive) - self._curvature() * effective_map

    def velocity(self, model: AbstractLinearAttention, weights: Weights, rate: Array) -> Weights:  # type: ignore[override]
        # XLA takes out of its loop what is the same at every step: vectors here, since matrices
        # of each row's own would be read from memory step by step (measured, beside 35 ns for a
        # problem that all rows share: 37 ns, and 40 with matrices).
        scale = rate * self.gain
        steepness = (scale * self.gain) * self.summary
        response = steepness[:, None] * (self.query[None] * model.coefficients(weights))
        force = diagonal_matrix(scale * self.drive) - response
        return model.pull_back(weights, force)

    def best_map(self, capacity: int) -> FloatArray | None:
        drive, curvature = np.asarray(self.drive), np.asarray(self.summary * self.query)
        best = np.divide(drive, curvature, out=np.zeros_like(drive), where=curvature > 0)
        best[np.argsort(-drive * best, kind="stable")[capacity:]] = 0.0
        return np.diag(best)

    def padded(self, dimension: int) -> DiagonalRisk:
        return self._resized(lambda values: np.pad(values, (0, dimension - len(values))))

    def felt_dimensions(self) -> int:
        return _felt(self.drive, self.summary, self.query)

    def trimmed(self, dimension: int) -> DiagonalRisk:
        return self._resized(lambda values: values[:dimension])

    def _curvature(self) -> Float[Array, "D D"]:
        return self.summary[:, None] * self.query[None]

    def _resized(self, resize: Callable[[FloatArray], FloatArray]) -> DiagonalRisk:
        vectors = (resize(np.asarray(own)) for own in (self.drive, self.summary, self.query))
        return DiagonalRisk(self.gain, self.label_power, *vectors)


class DenseRisk(AbstractMapRisk):
    r"""The population loss of covariances that do not commute: $G = C - B W \Lambda_q$."""

    gain: Array
    label_power: Array
    drive: Array
    summary: Array
    query: Array

    def map_loss(self, effective_map: Float[Array, "D D"]) -> Float[Array, ""]:
        response = self.summary @ effective_map @ self.query
        return self.label_power + (effective_map * (response - 2 * self.drive)).sum()

    def map_force(self, effective_map: Float[Array, "D D"]) -> Float[Array, "D D"]:
        return self.drive - self.summary @ effective_map @ self.query

    def best_map(self, capacity: int) -> FloatArray | None:
        matrices = (np.asarray(matrix) for matrix in (self.drive, self.summary, self.query))
        left, values, right = whitened_triples(*matrices)
        return (left[:, :capacity] * values[:capacity]) @ right[:, :capacity].T

    def padded(self, dimension: int) -> DenseRisk:
        matrices = (_pad(matrix, dimension) for matrix in (self.drive, self.summary, self.query))
        return DenseRisk(self.gain, self.label_power, *matrices)

    def felt_dimensions(self) -> int:
        return _felt(self.drive, self.summary, self.query)

    def trimmed(self, dimension: int) -> DenseRisk:
        matrices = (_trim(matrix, dimension) for matrix in (self.drive, self.summary, self.query))
        return DenseRisk(self.gain, self.label_power, *matrices)


def _pad(matrix: Float[Array, "D D"], dimension: int) -> FloatArray:
    """A matrix with zeros in further dimensions."""
    return np.pad(np.asarray(matrix), (0, dimension - len(matrix)))


def _trim(matrix: Float[Array, "D D"], dimension: int) -> FloatArray:
    """The first dimensions of a matrix."""
    return np.asarray(matrix)[:dimension, :dimension]


def _felt(*moments: Float[Array, "D *D"]) -> int:
    """The number of dimensions without the trailing ones in which all moments are zero."""
    felt = np.zeros(len(moments[0]), bool)
    for moment in moments:
        sizes = np.abs(np.asarray(moment))
        most = sizes if sizes.ndim == 1 else np.maximum(sizes.max(0), sizes.max(1))
        felt |= most > _rounding(len(sizes)) * most.max()
    return max(felt.size - int(felt[::-1].argmax()), 1)


def _rounding(dimension: int) -> float:
    """The share of the largest eigenvalue of a covariance that its others are known to."""
    return float(dimension * np.finfo(float).eps)


def _support(*covariances: FloatArray) -> FloatArray | None:
    """A basis that begins with the directions in which there is any power; None if all are."""
    total = np.sum([matrix / np.abs(matrix).max() for matrix in covariances], axis=0)
    values, vectors = np.linalg.eigh(total)
    is_full = values[0] > _rounding(len(values)) * values[-1]
    return None if is_full else np.ascontiguousarray(vectors[:, ::-1])


def population_objective(
    gain: float,
    label_power: float,
    drive: FloatArray,
    summary: FloatArray,
    query: FloatArray,
    basis: FloatArray | None,
) -> Objective:
    """The exact loss from its moments (T3), diagonal where they have a common `basis`.

    Where they have none, but leave directions out, these come last.
    """
    factor, power = np.float64(gain), np.float64(label_power)
    if basis is None:
        basis = _support(summary, query)
        if basis is not None:
            drive, summary, query = (
                product(product(basis.T, matrix), basis) for matrix in (drive, summary, query)
            )
        return Objective(DenseRisk(factor, power, drive, summary, query), basis)
    drive, summary, query = (
        (product(basis.T, matrix) * basis.T).sum(1) for matrix in (drive, summary, query)
    )
    risk = DiagonalRisk(factor, power, drive, summary, query)
    return Objective(risk, None if np.array_equal(basis, np.eye(len(basis))) else basis)
