"""The linear transformer of Mainali and Teixeira, for vector labels (THEORY section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.attention.base import AbstractAttention
from saddlescope.checks import FloatArray, one_of, real_array
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.risk import Objective
    from saddlescope.task import AbstractData, Prompts

_AXES = {
    "p2": ("output", "label"),
    "q1": ("dim", "query_dim"),
    "p1": ("output", "dim"),
    "q2": ("label", "query_dim"),
}


@kind("model", "linear_transformer")
@dataclass(frozen=True)
class LinearTransformer(AbstractAttention):
    r"""$f(Z) = Z + W_P (ZZ^\top/N) W_Q Z$ on tokens $(x; y) \in R^{2D}$ (T15).

    The prediction is the query's label slot, which holds 0. Only $W_P$'s lower row $(p_1, p_2)$ and
    $W_Q$'s left column $(q_1; q_2)$ reach it, so that the other blocks never move. Weights are
    D×D: `p2, q1` with `blocks="reduced"`, where $\hat y = p_2 W\hat\Sigma q_1 x_q$, and `p1, q2`
    besides with `"full"`, which start at zero and stay there on the population.

    - `blocks`: `reduced`, or `full` where all four blocks train.

    >>> LinearTransformer(blocks="full").shapes(2)
    {'p2': (2, 2), 'q1': (2, 2), 'p1': (2, 2), 'q2': (2, 2)}
    """

    blocks: str = "reduced"
    normalisation: str = "context"
    heads = 1
    degree = 2
    has_vector_labels = True
    conserved_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"norm_balance": ()}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("blocks", self.blocks, ("reduced", "full"))

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {name: _AXES[name] for name in self._names}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self._names, (dimension, dimension))

    def deviations(self, dimension: int) -> dict[str, float]:
        """At scale w, $p_2$ and $q_1$ have a mean square norm of $w^2$."""
        entries = {"p2": 1 / dimension, "q1": 1 / dimension, "p1": 0.0, "q2": 0.0}
        return {name: entries[name] for name in self._names}

    def conserved(self, weights: Weights) -> Weights:
        r"""$\|p\|_F^2 - \|q\|_F^2$ over all blocks: the symmetry is p → cp, q → q/c."""
        squares = {name: (weights[name] ** 2).sum((-2, -1)) for name in self._names}
        signed = [square if name[0] == "p" else -square for name, square in squares.items()]
        return {"norm_balance": sum(signed)}

    @property
    def has_exact_loss(self) -> bool:
        return self.blocks == "reduced"

    def _objective(self, task: AbstractData, gain: float) -> Objective:
        objective = task.vector_objective(gain)
        if self.blocks == "full" and not task.is_given:
            raise InvalidInput(
                "blocks", self.blocks, "has no exact loss: take reduced blocks, or fresh prompts"
            )
        return objective

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        r"""$\hat y$ of each of `prompts`.

        $\frac1N\sum_n (p_1x_n + p_2y_n)(x_n^\top q_1x_q + y_n^\top q_2x_q)$, and with full blocks
        the query's own token, $\frac1N p_1x_q\,(x_q^\top q_1x_q)$.
        """
        x, y, query = prompts.x[:, :-1], prompts.y[:, :-1], prompts.query
        key = query @ weights["q1"].T
        scores = (x @ key[:, :, None])[:, :, 0]
        if self.blocks == "full":
            scores = scores + (y @ (query @ weights["q2"].T)[:, :, None])[:, :, 0]
        predicted = (scores[:, None, :] @ y)[:, 0] @ weights["p2"].T
        if self.blocks == "full":
            own = (query * key).sum(-1)[:, None] * query
            predicted = predicted + ((scores[:, None, :] @ x)[:, 0] + own) @ weights["p1"].T
        return gain * predicted / prompts.lengths[:, None]

    def start(self, basis: object, p: object, q: object) -> Weights:
        r"""Weights whose modes are `p[D]`, `q[D]`: $p_2 = U\mathrm{diag}(p)U^\top$, $q_1$ alike.

        U is `basis[D, D]`, the task's `common_basis`; what is not a mode is zero.

        >>> LinearTransformer().start(np.eye(2), p=[1, 2], q=.5)["q1"].tolist()
        [[0.5, 0.0], [0.0, 0.5]]
        """
        vectors = real_array("basis", basis, (None, None))
        weights = {name: np.zeros(shape) for name, shape in self.shapes(len(vectors)).items()}
        for name, modes in (("p2", p), ("q1", q)):
            weights[name] = (vectors * _per_mode(modes, len(vectors))) @ vectors.T
        return weights

    @property
    def _names(self) -> tuple[str, ...]:
        return ("p2", "q1") if self.blocks == "reduced" else ("p2", "q1", "p1", "q2")


def _per_mode(modes: object, dimension: int) -> FloatArray:
    array = real_array("modes", modes)
    return array if array.ndim == 0 else real_array("modes", modes, (dimension,))
