"""Exact moments of prompts: what the population loss needs, whatever the number of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import Array, product
from saddlescope.checks import FloatArray, number, real_array
from saddlescope.errors import InvalidInput
from saddlescope.task.spectrum import common_basis


def sandwich(covariance: FloatArray, inner: FloatArray, inverse_length: float) -> FloatArray:
    r"""$E[\hat\Lambda A \hat\Lambda]$ for the empirical covariance of N Gaussian vectors (T2).

    $\Lambda A \Lambda + (\Lambda A^\top \Lambda + \mathrm{tr}(A\Lambda)\,\Lambda)/N$, with
    `inverse_length` $= E[1/N]$ where the length is random. With A = I this is T1 (Z eq. 20).

    `inner` is A, [D, D].

    >>> sandwich(np.eye(2), np.eye(2), 1 / 4).tolist()
    [[1.75, 0.0], [0.0, 1.75]]
    """
    covariance = _square("covariance", covariance)
    inner = _square("inner", inner, len(covariance))
    inverse_length = number("inverse_length", inverse_length)
    weighted = product(covariance, inner)
    turned = product(product(covariance, inner.T), covariance)
    spread = turned + np.trace(weighted) * covariance
    return product(weighted, covariance) + inverse_length * spread


@dataclass(frozen=True, eq=False)
class RegressionMoments:
    r"""The moments of in-context regression that the loss of a linear attention depends on (T3).

    $L(W) = \text{label power} - 2\langle W, \text{drive}\rangle
    + \mathrm{tr}(W^\top B\, W \Lambda_q)$.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> moments = task.moments()
    >>> moments.loss(0 * moments.drive)
    0.7
    """

    label_power: float
    """$E[y_q^2] = \\mathrm{tr}(\\Sigma_w \\Lambda_q)$."""
    drive: FloatArray
    """$E[y_q \\beta x_q^\\top] = \\Lambda \\Sigma_w \\Lambda_q$, [D, D]."""
    summary: FloatArray
    """$B = E[\\beta\\beta^\\top]$ (T2), [D, D]."""
    query: FloatArray
    """$\\Lambda_q$, [D, D]."""

    @property
    def common_basis(self) -> FloatArray | None:
        """An orthonormal basis in which all three matrices are diagonal, as columns; or None."""
        if not np.allclose(self.drive, self.drive.T, atol=1e-12 * np.abs(self.drive).max()):
            return None
        return common_basis([self.drive, self.summary, self.query])

    def loss(self, effective_map: FloatArray) -> float:
        """L(W) (T3)."""
        return float(
            population_loss(effective_map, self.label_power, self.drive, self.summary, self.query)
        )

    def force(self, effective_map: FloatArray) -> FloatArray:
        r"""$G = -\frac12\partial L/\partial W$ (T3)."""
        return self.drive - self.summary @ effective_map @ self.query


def population_loss(
    effective_map: Array, label_power: Array, drive: Array, summary: Array, query: Array
) -> Array:
    """T3's loss of a map and moments `[D, D]` that are NumPy's or JAX's."""
    response = summary @ effective_map @ query
    return label_power + (effective_map * (response - 2 * drive)).sum()


def regression_moments(
    covariance: FloatArray,
    task_covariance: FloatArray,
    query_covariance: FloatArray,
    label_noise: float,
    inverse_length: float,
    excess: FloatArray | None = None,
) -> RegressionMoments:
    r"""T2 and T3's moments: $B = E[\hat\Lambda\Sigma_w\hat\Lambda] + \sigma^2\Lambda E[1/N]$.

    `excess` is what $E[xx^\top\Sigma_w xx^\top]$ has beyond its Gaussian value (T20), none for
    Gaussian inputs.

    `inverse_length` is E[1/N]; covariances are [D, D].

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> inputs, tasks = np.diag([.4, .3]), np.eye(2)
    >>> moments = ss.regression_moments(inputs, tasks, inputs, label_noise=0., inverse_length=1/31)
    >>> moments.summary.diagonal().round(4).tolist()  # the eigenvalues of E[Λ̂²]
    [0.1742, 0.0997]
    """
    covariance = _square("covariance", covariance)
    task_covariance = _square("task_covariance", task_covariance, len(covariance))
    query_covariance = _square("query_covariance", query_covariance, len(covariance))
    number("label_noise", label_noise, at_least=0.0)
    number("inverse_length", inverse_length)
    with np.errstate(over="ignore", invalid="ignore"):
        noise = np.float64(label_noise) ** 2 * inverse_length * covariance
        if excess is not None:
            noise = noise + inverse_length * excess
        moments = RegressionMoments(
            label_power=float(np.trace(product(task_covariance, query_covariance))),
            drive=product(product(covariance, task_covariance), query_covariance),
            summary=sandwich(covariance, task_covariance, inverse_length) + noise,
            query=query_covariance,
        )
        # The loss's curvature is a product of two of them.
        curvature = np.abs(moments.summary).max() * np.abs(query_covariance).max()
    if not np.isfinite(curvature) or not all(
        np.isfinite(moment).all() for moment in vars(moments).values()
    ):
        sizes = {
            "spectrum": float(np.abs(covariance).max()),
            "task_covariance": float(np.abs(task_covariance).max()),
            "query_covariance": float(np.abs(query_covariance).max()),
            "label_noise": label_noise,
        }
        field = max(sizes, key=lambda name: sizes[name])
        raise InvalidInput(field, sizes[field], "makes moments of the task beyond float64")
    return moments


def _square(field: str, value: object, dimension: int | None = None) -> FloatArray:
    matrix = real_array(field, value, (dimension, dimension))
    if not matrix.size or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput(f"{field}.shape", matrix.shape, "must be (D, D)")
    return matrix
