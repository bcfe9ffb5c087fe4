"""Fresh prompts with vector labels inside compiled loops."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from saddlescope.dynamics.risk import Batch
from saddlescope.task.aligned import AlignedRegression


class VectorSampler(eqx.Module):
    """Prompts of `AlignedRegression`."""

    eigenvalues: Any
    basis: Any
    tasks: str = eqx.field(static=True)
    context_length: int = eqx.field(static=True)

    @classmethod
    def of(cls, task: AlignedRegression) -> VectorSampler:
        """What draws from a task."""
        spectrum = task.spectrum
        return cls(spectrum.eigenvalues, spectrum.basis, task.tasks, task.context_length.longest)

    def draw(self, key: Any, count: int) -> Batch:
        """A batch of `count` prompts."""
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
        return Batch(x, y, jnp.full(count, self.context_length, dtype=x.dtype))
