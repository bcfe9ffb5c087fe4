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
from saddlescope.task.tree import Prompts


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


class AbstractInputSampler(eqx.Module):
    """Makes inputs of normal numbers, `[count, N+1, D]`, the query last; `key` gives it more."""

    @abc.abstractmethod
    def shape(self, normals: Array, key: Key[Array, ""]) -> Array:
        """The inputs, of the same shape."""


class CoordinateSampler(AbstractInputSampler):
    """Inputs that are independent along eigenvectors, of one law or of one for each."""

    input_root: Array
    query_root: Array
    laws: tuple[tuple[str, float | None], ...] = eqx.field(static=True)
    """Each law's name, and its degrees of freedom where it has some."""

    def shape(self, normals: Array, key: Key[Array, ""]) -> Array:
        white = _transformed(normals, self.laws[0], key)
        for law in dict.fromkeys(self.laws[1:]):
            own = jnp.array([other == law for other in self.laws])
            white = jnp.where(own[None, None, :], _transformed(normals, law, key), white)
        context, query = white[:, :-1] @ self.input_root.T, white[:, -1] @ self.query_root.T
        return jnp.concatenate([context, query[:, None]], axis=1)


class InputRowSampler(AbstractInputSampler):
    """Inputs that are rows of given ones, drawn with replacement; Gaussian queries if asked for."""

    rows: Array
    query_root: Array | None

    def shape(self, normals: Array, key: Key[Array, ""]) -> Array:
        drawn = self.rows[jax.random.randint(key, normals.shape[:2], 0, self.rows.shape[0])]
        if self.query_root is None:
            return drawn
        return jnp.concatenate([drawn[:, :-1], normals[:, -1:] @ self.query_root.T], axis=1)


def _transformed(normals: Array, law: tuple[str, float | None], key: Key[Array, ""]) -> Array:
    """Normal numbers made ones of another law of mean 0 and variance 1."""
    name, freedom = law
    sign = jnp.copysign(jnp.ones_like(normals), normals)
    if freedom is not None:
        # A chi-squared number of ν degrees of freedom is twice a gamma one of ν/2.
        power = 2 * jax.random.gamma(key, freedom / 2, normals.shape)
        return normals * jnp.sqrt((freedom - 2) / power)
    if name == "rademacher":
        return sign
    if name == "uniform":
        return 3**0.5 * jax.lax.erf(normals * 0.5**0.5)
    if name == "laplace":
        tail = jax.lax.erfc(jnp.abs(normals) * 0.5**0.5)
        return -sign * jnp.log(tail) * 0.5**0.5
    return normals


class RegressionSampler(AbstractSampler):
    """Prompts of in-context regression, a share of them with tasks from a pool."""

    inputs: AbstractInputSampler
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
        dimension, longest = self.task_root.shape[0], self.longest
        gaussian_key, uniform_key = jax.random.split(key)
        sizes = (longest * dimension, longest, dimension, dimension)
        drawn = jax.random.normal(gaussian_key, (count, sum(sizes)))
        context, noise, query, fresh = jnp.split(drawn, np.cumsum(sizes)[:-1].tolist(), axis=1)
        chance = jax.random.uniform(uniform_key, (3, count))
        normals = jnp.concatenate([context, query], axis=1).reshape(count, -1, dimension)
        x = self.inputs.shape(normals, jax.random.fold_in(gaussian_key, 1))
        context, query, fresh = x[:, :-1], x[:, -1], fresh @ self.task_root.T
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
        on_device = jax.device_put(sampler)
        drawn = to_numpy(on_device.draw(jax.random.key(seed), count))
    return Prompts(drawn.x, drawn.y, drawn.lengths)
