r"""All blocks of value, key and query together: their optimum, and the one head they become (T5).

A linear model with all blocks is linear in the features $\phi$ of T5, so that a law or data enter
only through the statistics $E[\phi\phi^\top]$, $E[y\phi]$ and $E[y^2]$ (T6). A `task` here is a law
that knows them, or the statistics themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.attention import MergedAttention, Weights
from saddlescope.attention.formulas.blocks import split_coefficients
from saddlescope.checks import real_array
from saddlescope.errors import InvalidInput
from saddlescope.task import Statistics
from saddlescope.theory.parametrisation import GivenWeights, given_heads, population_law


@dataclass(frozen=True, eq=False, repr=False)
class BlockOptimum(BriefRepr):
    """The best that is linear in the features of all blocks.

    >>> import saddlescope as ss
    >>> pool = ss.TaskPool([.5, .5], context_length=31, tasks=1, share=.4)
    >>> round(ss.theory.block_optimum(pool).loss, 4)
    0.0795
    """

    coefficients: Float[np.ndarray, " F"]
    r"""$\theta$, in the order of the features."""
    loss: float


def block_optimum(task: object) -> BlockOptimum:
    r"""$\theta = E[\phi\phi^\top]^{-1}E[y\phi]$ (T6), the shortest of several, and its loss.

    D+1 heads or more of merged attention with all blocks can hold any $\theta$ (T5).

    >>> from saddlescope.task import TaskPool
    >>> pool = TaskPool.draw([.5, .5], context_length=8, count=1, share=.5)
    >>> block_optimum(pool).loss < block_optimum(pool.law).loss
    True
    """
    statistics = _statistics(task)
    # Not by eigenvectors: OpenBLAS takes many times as long for them when the cores are busy.
    solved = np.linalg.lstsq(statistics.second_moment, statistics.cross_moment, rcond=1e-10)
    best = np.asarray(solved[0], dtype=np.float64)
    return BlockOptimum(best, block_loss(statistics, best))


def block_loss(task: object, coefficients: object) -> float:
    r"""The loss of `coefficients[F]`, $\theta$ of T5, on any law or data (T6).

    >>> from saddlescope.task import InContextRegression
    >>> round(block_loss(InContextRegression([.4, .1], 31), np.zeros(14)), 6)
    0.5
    """
    statistics = _statistics(task)
    theta = real_array("coefficients", coefficients, statistics.cross_moment.shape)
    response = statistics.second_moment @ theta
    return float(statistics.label_power + theta @ (response - 2 * statistics.cross_moment))


def drive_matrix(task: object) -> Float[np.ndarray, "d F"]:
    r"""$E[y\phi]$ as the bilinear form of a value row $(\nu, v)$ and a column $(U; u^\top)$ (T5).

    `[D+1, D²+D]`. Its largest singular value is the rate at which small weights grow (T10).

    >>> from saddlescope.task import InContextRegression
    >>> matrix = drive_matrix(InContextRegression([.4, .1], context_length=31))
    >>> matrix.shape, round(float(np.linalg.norm(matrix, 2)), 4)
    ((3, 6), 0.1603)
    """
    statistics = _statistics(task)
    size = statistics.dimension
    cubic, square, linear = split_coefficients(statistics.cross_moment, size)
    above = np.concatenate([cubic.reshape(size, -1), square], axis=1)
    return np.concatenate([above, np.concatenate([square.ravel(), linear])[None]])


def one_head(task: object, weights: GivenWeights) -> Weights:
    r"""The one head that small merged weights become: T10 for all blocks.

    Small heads all turn to the leading singular pair (a, b) of the drive and move as one from
    there on, of squared length $\sum_i \frac14(\langle a, (\nu_i, v_i)\rangle +
    \langle b, (U_i; u_i)\rangle)^2$. It is the first of H heads; the others are zero and stay so.
    `weights` are those of one seed or of an ensemble, and so is the answer.

    >>> from saddlescope.attention import RandomStart
    >>> from saddlescope.task import TaskPool
    >>> pool = TaskPool.draw([.5, .5], context_length=8, count=1, share=.5)
    >>> model = MergedAttention(heads=3, blocks="full")
    >>> (one_head(pool, RandomStart(.01).weights(model, pool, seed=0))["v"] != 0).tolist()
    [True, False, False]
    """
    statistics = _statistics(task)
    size = statistics.dimension
    model = MergedAttention(given_heads(weights), blocks="full")
    start = model.check_weights(weights, size)
    left, _, right = np.linalg.svd(drive_matrix(statistics))
    value, column = left[:, 0], right[0]
    rows = np.concatenate([start["nu"], start["v"][..., None]], axis=-1)
    flat = start["U"].reshape(*start["v"].shape, -1)
    columns = np.concatenate([flat, start["u"]], axis=-1)
    length = np.zeros_like(start["v"])
    length[..., 0] = np.sqrt(((rows @ value + columns @ column) ** 2 / 4).sum(axis=-1))
    return {
        "v": length * value[-1],
        "U": length[..., None, None] * column[:-size].reshape(size, size),
        "nu": length[..., None] * value[:-1],
        "u": length[..., None] * column[-size:],
    }


def _statistics(task: object) -> Statistics:
    if not isinstance(task, Statistics):
        return population_law(task).block_statistics()
    if task.blocks != "full":
        raise InvalidInput("blocks", task.blocks, "the statistics must be those of all blocks")
    return task
