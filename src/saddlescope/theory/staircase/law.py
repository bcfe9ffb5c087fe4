"""The distribution of drop times over random starts (T18)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention, RandomStart
from saddlescope.checks import FloatArray, number, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task import AbstractTask
from saddlescope.theory.parametrisation import population_law
from saddlescope.theory.staircase.dormant import (
    dormant_staircase,
    first_drop_delay,
    first_drop_times,
    runaway_times,
)

# Heads whose runaway times stand for their distribution where nobody says how many.
_HEADS = 2**17
# Shares of the seeds between which the distribution is drawn as a smooth curve: both ends, and
# as many between them as so many heads tell apart.
_FIRST_SHARES, _LAST_SHARES = (1e-4, 1e-3), (0.999, 0.9999)
_MOST_KNOTS, _FEWEST_KNOTS = 50, 8
# Seeds of the law's own starts: no run has them.
_FIRST_SEED = 2**62


@dataclass(frozen=True, eq=False, repr=False)
class DropTimeLaw(BriefRepr):
    r"""When the loss first drops, over random starts of one scale.

    Heads are independent and a runaway time is inversely proportional to the scale w, so that
    $P(t_1 > t) = S(w(t + \kappa/(c_1\xi_1^{1/3})))^H$ with S the survival function of one head's
    $t^*$ at w = 1, here that of the heads that were drawn.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> law = ss.theory.drop_time_law(model, task, init_scale=.01, sampled_heads=4096)
    >>> early, median = law.quantiles([.05, .5])
    >>> bool(early < median)
    True
    """

    model: AbstractAttention
    task: AbstractTask
    init_scale: float
    delay: float
    r"""$\kappa/(c_1\xi_1^{1/3})$; K where covariances do not commute."""
    runaways: Float[np.ndarray, " heads"]
    """Runaway times of single heads at scale one, rising."""

    def quantiles(self, shares: ArrayLike) -> FloatArray:
        """The times by which these shares of the starts have dropped."""
        given = real_array("shares", shares)
        if (given <= 0).any() or (given >= 1).any():
            raise InvalidInput("shares", shares, "must lie between 0 and 1")
        return self._times(given)

    def survival(self, times: ArrayLike) -> FloatArray:
        """The share of the starts that has not dropped by each time."""
        given = real_array("times", times)
        passed = np.searchsorted(self.runaways, self.init_scale * (given + self.delay))
        return (1 - passed / len(self.runaways)) ** self._heads

    def density(self, times: ArrayLike) -> FloatArray:
        """The density of the first drop's time, of a smooth curve through 54 quantiles.

        They are fewer where fewer heads stand for the law.
        """
        given = real_array("times", times)
        curve = self._curve
        inside = (given > curve.x[0]) & (given < curve.x[-1])
        return np.where(inside, curve.derivative()(np.clip(given, curve.x[0], curve.x[-1])), 0.0)

    def sample(self, count: int, *, drops: int = 1, first: int = 0) -> Float[np.ndarray, "S drops"]:
        """The drop times of fresh starts, the first `drops` of each, jointly.

        `first` numbers the first of them: others come from other numbers.
        """
        starts = whole_number("count", count)
        wanted = whole_number("drops", drops)
        offset = _FIRST_SEED + len(self.runaways) + whole_number("first", first, at_least=0)
        seeds = offset + np.arange(starts, dtype=np.int64)
        weights = RandomStart(self.init_scale).ensemble(self.model, self.task, seeds)
        if wanted == 1:
            return first_drop_times(self.model, self.task, weights)[:, None]
        found = dormant_staircase(self.model, self.task, weights).time
        if wanted > found.shape[1]:
            raise InvalidInput("drops", drops, f"there are {found.shape[1]} at most")
        return found[:, :wanted]

    @property
    def _heads(self) -> int:
        heads: int = self.model.heads
        return heads

    def _times(self, shares: FloatArray) -> FloatArray:
        # The first of H heads: one of them has come as far with this share.
        alone = -np.expm1(np.log1p(-shares) / self._heads)
        alone = np.quantile(self.runaways, alone)
        return np.asarray(alone / self.init_scale - self.delay)

    @cached_property
    def _curve(self) -> PchipInterpolator:
        """The share that has dropped, over time."""
        count = int(np.clip(np.sqrt(len(self.runaways)) / 7, _FEWEST_KNOTS, _MOST_KNOTS))
        inner = np.linspace(0.01, 0.99, count)
        shares = np.concatenate([_FIRST_SHARES, inner, _LAST_SHARES])
        return PchipInterpolator(self._times(shares), shares)


def drop_time_law(
    model: AbstractAttention,
    task: AbstractTask,
    init_scale: float = 0.01,
    *,
    sampled_heads: int = _HEADS,
) -> DropTimeLaw:
    """The law of the first drop of separate attention over random starts of a scale w (T18).

    Exact as w falls to zero, at any rank, but for the `sampled_heads` that stand for all: of
    131 072 quantiles are good to about a percent, and fewer take less time. Later drops are those
    of `DropTimeLaw.sample`.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> law = drop_time_law(SeparateAttention(heads=5), task, init_scale=.01)
    >>> float(law.quantiles(.5).round(-1))
    1990.0
    """
    scale = number("init_scale", init_scale, above=0.0)
    law = population_law(task)
    delay = first_drop_delay(model, law)
    drawn = whole_number("sampled_heads", sampled_heads)
    seeds = _FIRST_SEED + np.arange(-(-drawn // model.heads), dtype=np.int64)
    starts = RandomStart(1.0).ensemble(model, law, seeds)
    runaways = np.sort(runaway_times(model, law, starts).reshape(-1)[:drawn])
    return DropTimeLaw(model, law, scale, delay, runaways)
