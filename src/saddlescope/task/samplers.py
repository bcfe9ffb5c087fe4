"""Prompts drawn inside compiled loops."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Key

from saddlescope.arrays import Array
from saddlescope.precision import to_numpy
from saddlescope.task.prompts import Prompts

# For JAX, prompts are a tree of three arrays; what comes out of it is not checked again.
jax.tree_util.register_pytree_node(
    Prompts,
    lambda prompts: ((prompts.x, prompts.y, prompts.lengths), None),
    lambda _, leaves: Prompts.of_arrays(*leaves),
)


class AbstractSampler(eqx.Module):
    """Draws prompts; what may change without compiling anew is an array in it."""

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], count: int) -> Prompts:
        """A batch of `count` prompts."""


class RowSampler(AbstractSampler):
    """Rows of given prompts, drawn with replacement."""

    prompts: Prompts

    def draw(self, key: Key[Array, ""], count: int) -> Prompts:
        rows = jax.random.randint(key, (count,), 0, self.prompts.x.shape[0])
        return jax.tree.map(lambda leaf: leaf[rows], self.prompts)


class RegressionSampler(AbstractSampler):
    """Prompts of in-context regression, a share of them with tasks from a pool."""

    input_root: Array
    query_root: Array
    task_root: Array
    label_noise: Array
    lengths: Array
    shares: Array
    pool: Array
    pool_share: Array
    random_labels: bool = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], count: int) -> Prompts:
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
        return Prompts.of_arrays(
            x=jnp.concatenate([context * inside[:, :, None], query[:, None]], axis=1),
            y=jnp.concatenate([labels * inside, target[:, None]], axis=1),
            lengths=own.astype(context.dtype),
        )


class VectorSampler(AbstractSampler):
    """Prompts of `AlignedRegression`."""

    eigenvalues: Array
    basis: Array
    tasks: str = eqx.field(static=True)
    context_length: int = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], count: int) -> Prompts:
        # One call for all Gaussians: each costs a second to compile.
        dimension, tokens = self.eigenvalues.shape[0], self.context_length + 1
        width = dimension if self.tasks == "aligned" else dimension**2
        drawn = jax.random.normal(key, (count, tokens * dimension + width))
        modes, own = jnp.split(drawn, [tokens * dimension], axis=1)
        modes = modes.reshape(count, tokens, dimension) * jnp.sqrt(self.eigenvalues)[None, None]
        x = modes @ self.basis.T
        if self.tasks == "aligned":
            y = (modes * own[:, None]) @ self.basis.T
        else:
            y = x @ own.reshape(count, dimension, dimension) / dimension**0.5
        return Prompts.of_arrays(x, y, jnp.full(count, self.context_length, dtype=x.dtype))


def draw_prompts(sampler: AbstractSampler, count: int, seed: int) -> Prompts:
    """Prompts in float64, outside of any compiled loop."""
    with jax.enable_x64(True):
        on_device = jax.tree.map(jnp.asarray, sampler)
        drawn = to_numpy(on_device.draw(jax.random.key(seed), count))
    return Prompts(drawn.x, drawn.y, drawn.lengths)
