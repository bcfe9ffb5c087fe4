r"""Prompts as arrays: given data, or a batch drawn inside a compiled loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array
from saddlescope.checks import FloatArray, real_array
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.task.base import AbstractData
from saddlescope.task.statistics import Statistics

if TYPE_CHECKING:
    from saddlescope.risk import Objective
    from saddlescope.task.samplers import AbstractSampler


@kind("task", "prompts")
@dataclass(frozen=True, eq=False, init=False)
class Prompts(AbstractData):
    """Prompts as data, the query last among the inputs and its target last among the labels.

    - `x`: the inputs, [P, N+1, D].
    - `y`: the labels, [P, N+1], or [P, N+1, D] where they are vectors.
    - `lengths`: each prompt's own context length, [P], where they differ; the context pairs beyond
      it (positions `lengths[p]` to N−1) must be zero. Attention is divided by it.

    >>> Prompts(np.ones((3, 5, 2)), np.ones((3, 5)))
    Prompts(3 prompts, context_length=4, dimension=2)
    """

    x: Float[Array, "P M D"]
    y: Float[Array, "P M *labels"]
    lengths: Float[Array, " P"]

    def __init__(self, x: object, y: object, lengths: object = None) -> None:
        inputs = real_array("x", x, (None, None, None))
        count, tokens, dimension = inputs.shape
        if count == 0 or tokens < 2 or dimension == 0:
            raise InvalidInput(
                "x.shape", inputs.shape, "must be (P, N+1, D) with P, N and D at least 1"
            )
        labels = real_array("y", y)
        labels = real_array("y", y, inputs.shape if labels.ndim == 3 else (count, tokens))
        own = real_array(
            "lengths", np.full(count, tokens - 1) if lengths is None else lengths, (count,)
        )
        if ((own < 1) | (own > tokens - 1) | (own != np.round(own))).any():
            raise InvalidInput("lengths", lengths, f"must be whole numbers from 1 to {tokens - 1}")
        if lengths is not None:
            beyond = np.arange(tokens - 1) >= own[:, None]
            if inputs[:, :-1][beyond].any() or labels[:, :-1][beyond].any():
                raise InvalidInput("lengths", lengths, "context pairs beyond them must be zero")
        vars(self).update(x=inputs, y=labels, lengths=own)

    @classmethod
    def of_arrays(cls, x: Array, y: Array, lengths: Array) -> Prompts:
        """Prompts from NumPy or JAX arrays that are known to be valid."""
        made = object.__new__(cls)
        vars(made).update(x=x, y=y, lengths=lengths)
        return made

    @property
    def count(self) -> int:
        """P, the number of prompts."""
        return self.x.shape[0]

    @property
    def context_length(self) -> int:
        """N, the largest number of context pairs in a prompt."""
        return self.x.shape[1] - 1

    @property
    def dimension(self) -> int:
        return self.x.shape[2]

    @property
    def fixed_length(self) -> int | None:
        return self.context_length if (self.lengths == self.context_length).all() else None

    @property
    def longest_context(self) -> int:
        return self.context_length

    @property
    def has_vector_labels(self) -> bool:
        return self.y.ndim == 3

    @property
    def summary(self) -> Float[Array, "P D"]:
        r"""$\beta = \frac{1}{N}\sum_n y_n x_n$ of every prompt."""
        summed = (self.y[:, None, :-1] @ self.x[:, :-1])[:, 0]
        return summed / self.lengths[:, None]

    @property
    def query(self) -> Float[Array, "P D"]:
        """The query of every prompt."""
        return self.x[:, -1]

    @property
    def target(self) -> Float[Array, "P *labels"]:
        """The query's target of every prompt, [P], or [P, D] where labels are vectors."""
        return self.y[:, -1]

    @property
    def cubic_features(self) -> Float[Array, "P DD"]:
        r"""$z = \mathrm{vec}(\beta x_q^\top) = x_q \otimes \beta$ (T4), [P, D²]."""
        return (self.query[:, :, None] * self.summary[:, None, :]).reshape(self.count, -1)

    @property
    def block_features(self) -> FloatArray:
        r"""$\phi = (T_{ab}x_c, \beta_a x_b, s x_a)$, which all blocks see (T5), [P, D³+D²+D]."""
        context, query, lengths = self.x[:, :-1], self.query, self.lengths
        second = np.matmul(context.mT, context) + query[:, :, None] * query[:, None, :]
        second /= lengths[:, None, None]
        power = (self.y[:, :-1] ** 2).sum(1) / lengths
        parts = [
            (second[:, :, :, None] * query[:, None, None, :]).reshape(self.count, -1),
            (self.summary[:, :, None] * query[:, None, :]).reshape(self.count, -1),
            power[:, None] * query,
        ]
        return np.concatenate(parts, axis=1)

    def features(self, blocks: str) -> FloatArray:
        """What a linear attention with these blocks is linear in: reduced (T4) or full (T5)."""
        return self.cubic_features if blocks == "reduced" else self.block_features

    def part(self, start: int, stop: int) -> Prompts:
        """Some of the prompts, in their order."""
        rows = slice(start, stop)
        return Prompts.of_arrays(self.x[rows], self.y[rows], self.lengths[rows])

    def statistics(self, blocks: str = "reduced") -> Statistics:
        """All that full-batch training of a linear attention sees of these prompts (T6)."""
        return Statistics.from_batches([self], blocks)

    def linear_objective(self, blocks: str, gain: float) -> Objective:
        return self.statistics(blocks).linear_objective(blocks, gain)

    def prompt_objective(self, gain: float) -> Objective:
        # With the samplers JAX learns what prompts are made of.
        from saddlescope.risk import Objective, PromptRisk

        return Objective(PromptRisk(np.float64(gain), self))

    def vector_objective(self, gain: float) -> Objective:
        if self.has_vector_labels:
            return self.prompt_objective(gain)
        return super().vector_objective(gain)

    def sampler(self) -> AbstractSampler:
        from saddlescope.task.samplers import RowSampler

        return RowSampler(self)

    def __repr__(self) -> str:
        return (
            f"Prompts({self.count} prompts, context_length={self.context_length}, "
            f"dimension={self.dimension}{', vector labels' if self.has_vector_labels else ''})"
        )
