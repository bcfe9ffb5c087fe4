"""A task of your own: in-context regression on sparse inputs.

    python examples/own_task.py
    saddlescope train --task examples/own_task.py:SparseRegression --density .2 --out out/sparse
    saddlescope train --task examples/own_task.py:SparseRegression --out out/batches \
        --steps 2000 --learning-rate .05 --batch-size 512

A task provides its dimension, context length, moments and a sampler. Everything else follows: exact
flow and descent, fresh prompts, the theory, saving, and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import saddlescope as ss
from saddlescope.task.samplers import AbstractSampler


@dataclass(frozen=True)
class SparseRegression(ss.AbstractTask):
    r"""In-context regression in which most inputs are zero.

    Each coordinate is $x_d = b\,z$ with $z \sim N(0, \lambda_d/p)$ and b = 1 with probability p,
    else 0, so that its variance is $\lambda_d$ and its excess kurtosis $3/p - 3$ (T20).

    - `spectrum`: the variances of the coordinates.
    - `context_length`: N, the pairs in the context.
    - `density`: p, the share of the inputs that are not zero.
    """

    spectrum: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    context_length: int = 31
    density: float = 0.5

    def __post_init__(self) -> None:
        variances = ss.Spectrum.make(self.spectrum).eigenvalues
        object.__setattr__(self, "spectrum", tuple(float(value) for value in variances))
        object.__setattr__(self, "context_length", ss.ContextLengths.make(self.context_length))
        if not 0 < self.density <= 1:
            raise ss.InvalidInput("density", self.density, "must be a share above 0, at most 1")

    @property
    def dimension(self) -> int:
        return len(self.spectrum)

    def moments(self) -> ss.RegressionMoments:
        """The moments of Gaussian inputs (T2), plus what the kurtosis adds to them (T20)."""
        covariance, inverse = np.diag(self.spectrum), self.context_length.mean_inverse
        gaussian = ss.regression_moments(
            covariance, np.eye(self.dimension), covariance, 0.0, inverse
        )
        heavier = (3 / self.density - 3) * inverse * covariance**2
        return ss.RegressionMoments(
            gaussian.label_power, gaussian.drive, gaussian.summary + heavier, gaussian.query
        )

    def sampler(self) -> SparseSampler:
        roots = np.sqrt(np.asarray(self.spectrum) / self.density)
        return SparseSampler(roots, np.float64(self.density), self.context_length.longest)


class SparseSampler(AbstractSampler):
    """Draws prompts inside compiled loops; its arrays are arguments of these, not constants."""

    roots: Float[Array, " D"]
    density: Float[Array, ""]
    length: int = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], count: int) -> ss.Prompts:
        inputs, masks, tasks = jax.random.split(key, 3)
        shape = (count, self.length + 1, self.roots.shape[0])
        present = jax.random.uniform(masks, shape) < self.density
        x = jnp.where(present, jax.random.normal(inputs, shape), 0.0) * self.roots[None, None]
        w = jax.random.normal(tasks, (count, 1, shape[2]))
        return ss.Prompts.of_arrays(x, (x * w).sum(-1), jnp.full(count, float(self.length)))


if __name__ == "__main__":
    model, flow = ss.SeparateAttention(heads=5), ss.GradientFlow(until=20_000)
    for density in (1.0, 0.2):
        run = ss.train(model, SparseRegression(density=density), method=flow)
        print(f"density {density:g}\n{run.compare()}\n")
