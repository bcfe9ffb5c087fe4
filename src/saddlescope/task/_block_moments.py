r"""Exact moments of the features that attention with all of its blocks sees (T5, T6).

The features of a prompt are $\phi = (T_{ab}x_c,\ \beta_a x_b,\ s x_a)$ with
$T = \hat\Lambda + x_q x_q^\top/N$: $D^3 + D^2 + D$ of them, in this order, last index fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.checks import FloatArray
from saddlescope.task.statistics import Statistics


@dataclass(frozen=True, eq=False)
class TaskMoments:
    r"""The first four moments of the task vector with a 1 appended, $\tilde w = (w, 1)$.

    The 1 carries the label noise: $y_n = \tilde w^\top(x_n, \epsilon_n)$. All of T6 is linear in
    these moments, so that those of a mixture of tasks are the mixture's.
    """

    first: FloatArray
    second: FloatArray
    third: FloatArray
    fourth: FloatArray

    @classmethod
    def of_pool(cls, tasks: FloatArray) -> TaskMoments:
        """The moments of tasks drawn from `tasks[K, D]` with equal probability."""
        extended = np.concatenate([tasks, np.ones((len(tasks), 1))], axis=1)
        count = len(tasks)
        return cls(
            first=extended.mean(0),
            second=np.einsum("ni,nj->ij", extended, extended) / count,
            third=np.einsum("ni,nj,nk->ijk", extended, extended, extended) / count,
            fourth=np.einsum("ni,nj,nk,nl->ijkl", *[extended] * 4) / count,
        )

    @classmethod
    def gaussian(cls, covariance: FloatArray) -> TaskMoments:
        r"""The moments of $w \sim N(0, \Sigma_w)$, by pairing."""
        one, wide = np.eye(len(covariance) + 1)[-1], np.pad(covariance, (0, 1))
        ones = np.outer(one, one)
        second = wide + ones
        third = sum(
            np.einsum(f"{pair},{rest}->ijk", wide, one)
            for pair, rest in (("ij", "k"), ("ik", "j"), ("jk", "i"))
        ) + np.einsum("i,j,k->ijk", one, one, one)
        pairs = (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
        fourth = np.einsum("ij,kl->ijkl", ones, ones)
        for left, right in pairs:
            for a, b in ((wide, wide), (wide, ones), (ones, wide)):
                fourth = fourth + np.einsum(f"{left},{right}->ijkl", a, b)
        return cls(one, second, third, fourth)

    def mixed(self, share: float, other: TaskMoments) -> TaskMoments:
        """A `share` of these tasks and the rest of `other`."""
        return TaskMoments(
            *(
                share * mine + (1 - share) * theirs
                for mine, theirs in (
                    (self.first, other.first),
                    (self.second, other.second),
                    (self.third, other.third),
                    (self.fourth, other.fourth),
                )
            )
        )


@dataclass(frozen=True, eq=False)
class ContextLaw:
    """What the features depend on besides the tasks."""

    covariance: FloatArray
    query: FloatArray
    label_noise: float
    inverse_length: float
    """E[1/N]."""
    inverse_square: float
    """E[1/N²]."""

    @property
    def extended(self) -> FloatArray:
        """blockdiag(Λ, σ²): the covariance of $(x_n, \\epsilon_n)$."""
        wide = np.pad(self.covariance, (0, 1))
        wide[-1, -1] = self.label_noise**2
        return wide

    @property
    def pair(self) -> FloatArray:
        r"""$E[\hat\Lambda_{ab}\hat\Lambda_{cd}]$ of the extended inputs."""
        wide = self.extended
        crossed = np.einsum("ac,bd->abcd", wide, wide) + np.einsum("ad,bc->abcd", wide, wide)
        return np.einsum("ab,cd->abcd", wide, wide) + self.inverse_length * crossed


@np.errstate(over="ignore", invalid="ignore")
def block_statistics(law: ContextLaw, tasks: TaskMoments, length: int | None) -> Statistics:
    """The exact statistics of all blocks (T6), for any distribution of tasks."""
    inner = slice(0, len(law.covariance))
    wide, pair, query = law.extended, law.pair, law.query
    four = gaussian_fourth(query)
    power = float(np.einsum("ij,ij->", wide, tasks.second))
    mean = wide[inner] @ tasks.first
    around = pair[inner, inner]
    value_pairs = np.einsum("abck,k->abc", around[:, :, inner], tasks.first)
    label_pairs = np.einsum("abij,ij->ab", around, tasks.second)
    tb = np.einsum("abd,ce->abcde", value_pairs, query)
    tb += law.inverse_length * np.einsum("d,abce->abcde", mean, four)
    ts = np.einsum("ab,cd->abcd", label_pairs, query) + law.inverse_length * power * four
    summaries = np.einsum("aibj,ij->ab", pair[inner, :, inner], tasks.second)
    bb = np.einsum("ac,bd->abcd", summaries, query)
    bs = np.einsum("a,bc->abc", np.einsum("aijk,ijk->a", pair[inner], tasks.third), query)
    squares = float(np.einsum("ijkl,ijkl->", pair, tasks.fourth))
    target_pairs = np.einsum("abcj,j->abc", four, tasks.first[inner])
    cross_t = np.einsum("ab,c->abc", law.covariance, query @ tasks.first[inner])
    cross_t += law.inverse_length * target_pairs
    cross_b = wide[inner] @ tasks.second[:, inner] @ query
    cross_s = np.einsum("ij,ijk->k", wide, tasks.third[:, :, inner]) @ query
    return _statistics(
        _tt(law),
        (tb, ts, bb, bs, squares * query),
        (cross_t, cross_b, cross_s),
        float(np.einsum("ij,ij->", tasks.second[inner, inner], query)),
        length,
    )


def random_label_statistics(law: ContextLaw, task: FloatArray, length: int | None) -> Statistics:
    r"""T6 where the context labels are noise, $y_n \sim N(0, 1)$, and the target is $w_*^\top x_q$.

    Only memory can solve it: the in-weight test, and training at share 1.
    """
    dimension = len(law.covariance)
    query, four = law.query, gaussian_fourth(law.query)
    ts = np.einsum("ab,cd->abcd", law.covariance, query) + law.inverse_length * four
    bb = law.inverse_length * np.einsum("ac,bd->abcd", law.covariance, query)
    cross_t = np.einsum("ab,c->abc", law.covariance, query @ task)
    cross_t += law.inverse_length * np.einsum("abcj,j->abc", four, task)
    return _statistics(
        _tt(law),
        (
            np.zeros((dimension,) * 5),
            ts,
            bb,
            np.zeros((dimension,) * 3),
            (1 + 2 * law.inverse_length) * query,
        ),
        (cross_t, np.zeros((dimension, dimension)), query @ task),
        float(task @ query @ task),
        length,
    )


def gaussian_fourth(covariance: FloatArray) -> FloatArray:
    """E[x_a x_b x_c x_d] of a centred Gaussian."""
    pairs = ("ab,cd->abcd", "ac,bd->abcd", "ad,bc->abcd")
    return sum(np.einsum(pattern, covariance, covariance) for pattern in pairs)


def gaussian_sixth(covariance: FloatArray) -> FloatArray:
    """E[x_a x_b x_c x_d x_e x_f] of a centred Gaussian: x_a paired with each of the others."""
    four = gaussian_fourth(covariance)
    pairs = ("ab,cdef", "ac,bdef", "ad,bcef", "ae,bcdf", "af,bcde")
    return sum(np.einsum(f"{pair}->abcdef", covariance, four) for pair in pairs)


def _tt(law: ContextLaw) -> FloatArray:
    inner = slice(0, len(law.covariance))
    covariance, query, four = law.covariance, law.query, gaussian_fourth(law.query)
    pair = law.pair[inner, inner, inner, inner]
    context = np.einsum("abde,cf->abcdef", pair, query)
    context += law.inverse_length * np.einsum("ab,decf->abcdef", covariance, four)
    context += law.inverse_length * np.einsum("abcf,de->abcdef", four, covariance)
    return context + law.inverse_square * gaussian_sixth(query)


def _statistics(
    tt: FloatArray,
    others: tuple[FloatArray, ...],
    cross: tuple[FloatArray, ...],
    label_power: float,
    length: int | None,
) -> Statistics:
    tb, ts, bb, bs, ss = others
    dimension = len(ss)
    sizes = (dimension**3, dimension**2, dimension)
    blocks = [
        [tt, tb, ts],
        [np.moveaxis(tb, (3, 4), (0, 1)), bb, bs],
        [np.moveaxis(ts, 3, 0), np.moveaxis(bs, 2, 0), ss],
    ]
    second = np.block(
        [
            [block.reshape(rows, columns) for block, columns in zip(line, sizes, strict=True)]
            for line, rows in zip(blocks, sizes, strict=True)
        ]
    )
    return Statistics(
        second_moment=second,
        cross_moment=np.concatenate([part.ravel() for part in cross]),
        label_power=label_power,
        count=None,
        context_length=length,
        blocks="full",
    )
