"""Fresh prompts inside compiled loops."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.checks import FloatArray
from saddlescope.dynamics.risk import Batch
from saddlescope.dynamics.vector_sampler import VectorSampler
from saddlescope.errors import InvalidInput
from saddlescope.task.aligned import AlignedRegression, VectorPrompts
from saddlescope.task.pool import TaskPool
from saddlescope.task.prompts import Prompts
from saddlescope.task.regression import InContextRegression
from saddlescope.task.spectrum import Spectrum


class RowSampler(eqx.Module):
    """Rows of given prompts, drawn with replacement."""

    prompts: Batch

    def draw(self, key: Any, count: int) -> Batch:
        """A batch of `count` prompts."""
        rows = jax.random.randint(key, (count,), 0, self.prompts.x.shape[0])
        return jax.tree.map(lambda leaf: leaf[rows], self.prompts)


class RegressionSampler(eqx.Module):
    """Prompts of in-context regression, a share of them with tasks from a pool."""

    input_root: Any
    query_root: Any
    task_root: Any
    label_noise: Any
    lengths: Any
    shares: Any
    pool: Any
    pool_share: Any
    random_labels: bool = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def draw(self, key: Any, count: int) -> Batch:
        """A batch of `count` prompts."""
        # One call for all Gaussians and one for all choices: each costs a second to compile.
        dimension, longest = self.input_root.shape[0], self.longest
        gaussian_key, uniform_key = jax.random.split(key)
        sizes = (longest * dimension, longest, dimension, dimension)
        drawn = jax.random.normal(gaussian_key, (count, sum(sizes)))
        context, noise, query, fresh = jnp.split(drawn, np.cumsum(sizes)[:-1].tolist(), axis=1)
        chance = jax.random.uniform(uniform_key, (3, count))
        context = context.reshape(count, longest, dimension) @ self.input_root.T
        query, fresh = query @ self.query_root.T, fresh @ self.task_root.T
        pooled = self.pool[(chance[0] * self.pool.shape[0]).astype(int)]
        from_pool = chance[1] < self.pool_share
        own = self.lengths[jnp.searchsorted(jnp.cumsum(self.shares)[:-1], chance[2], side="right")]
        tasks = jnp.where(from_pool[:, None], pooled, fresh)
        labels = (context * tasks[:, None, :]).sum(-1) + self.label_noise * noise
        if self.random_labels:
            labels = jnp.where(from_pool[:, None], noise, labels)
        inside = (jnp.arange(longest)[None, :] < own[:, None]).astype(context.dtype)
        target = (query * tasks).sum(-1)
        return Batch(
            x=jnp.concatenate([context * inside[:, :, None], query[:, None]], axis=1),
            y=jnp.concatenate([labels * inside, target[:, None]], axis=1),
            lengths=own.astype(context.dtype),
        )


def make_sampler(task: Any) -> Any:
    """What draws fresh prompts of a task inside a compiled loop."""
    if isinstance(task, Prompts | VectorPrompts):
        return RowSampler(Batch(task.x, task.y, task.lengths))
    if isinstance(task, AlignedRegression):
        return VectorSampler.of(task)
    if isinstance(task, InContextRegression):
        pool, share, random_labels = np.zeros((1, task.dimension)), 0.0, False
        law = task
    elif isinstance(task, TaskPool):
        pool, share, random_labels = task.tasks, task.share, task.labels == "random"
        law = task.law
    elif hasattr(task, "sampler"):
        return task.sampler()
    else:
        raise InvalidInput("task", task, "cannot be sampled: it has no sampler()")
    return RegressionSampler(
        input_root=_root(law.spectrum),
        query_root=_root(law.query_covariance or law.spectrum),
        task_root=_root(law.task_covariance or Spectrum.white(law.dimension)),
        label_noise=np.float64(law.label_noise),
        lengths=np.asarray(law.context_length.lengths),
        shares=law.context_length.probabilities,
        pool=pool,
        pool_share=np.float64(share),
        random_labels=random_labels,
        longest=law.context_length.longest,
    )


def _root(covariance: Spectrum) -> FloatArray:
    return covariance.basis * np.sqrt(covariance.eigenvalues)
