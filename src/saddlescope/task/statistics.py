r"""Sufficient statistics: all that full-batch training of a linear attention sees (T6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.task.base import AbstractData

if TYPE_CHECKING:
    from saddlescope.risk import Objective
    from saddlescope.task.prompts import Prompts

# Prompts whose features are held at once while statistics are accumulated.
_CHUNK = 4096


@kind("task", "statistics")
@dataclass(frozen=True, eq=False, init=False)
class Statistics(AbstractData):
    r"""Sufficient statistics of prompts for a linear attention (T6).

    A linear attention is linear in fixed features $\phi$ of a prompt: the $D^2$ cubic ones
    (`blocks="reduced"`, T4) or the $D^3+D^2+D$ of all blocks (`blocks="full"`, T5). Full-batch
    training on the squared loss sees data of any size only through three moments.

    - `second_moment`: E[φφᵀ], [F, F].
    - `cross_moment`: E[yφ], [F].
    - `label_power`: E[y²].
    - `count`: how many prompts they are of, none for the exact ones of a law.
    - `context_length`: N where every prompt has the same one, else none.
    - `blocks`: `reduced` or `full`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> statistics = ss.Statistics.from_batches([task.sample(50)])
    >>> statistics.second_moment.shape, statistics.count
    ((4, 4), 50)
    """

    second_moment: FloatArray
    cross_moment: FloatArray
    label_power: float
    count: int | None
    context_length: int | None
    blocks: str

    def __init__(
        self,
        second_moment: object,
        cross_moment: object,
        label_power: float,
        count: int | None,
        context_length: int | None,
        blocks: str = "reduced",
    ) -> None:
        one_of("blocks", blocks, ("reduced", "full"))
        cross = real_array("cross_moment", cross_moment, (None,))
        if cross.size == 0 or _feature_count(_dimension(cross.size, blocks), blocks) != cross.size:
            wanted = "(D²,)" if blocks == "reduced" else "(D³+D²+D,)"
            raise InvalidInput("cross_moment.shape", cross.shape, f"must be {wanted}")
        second = real_array("second_moment", second_moment, (cross.size, cross.size))
        power = number("label_power", label_power, at_least=0.0)
        if context_length is not None:
            context_length = whole_number("context_length", context_length)
        vars(self).update(
            second_moment=second,
            cross_moment=cross,
            label_power=power,
            count=None if count is None else whole_number("count", count),
            context_length=context_length,
            blocks=blocks,
        )

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def from_batches(cls, batches: Iterable[Prompts], blocks: str = "reduced") -> Statistics:
        """Accumulate over batches of prompts in float64; only one chunk is held at a time."""
        one_of("blocks", blocks, ("reduced", "full"))
        second = cross = None
        power, count = 0.0, 0
        lengths: set[int | None] = set()
        for batch in batches:
            if second is None or cross is None:
                size = _feature_count(batch.dimension, blocks)
                second, cross = np.zeros((size, size)), np.zeros(size)
            elif cross.size != _feature_count(batch.dimension, blocks):
                before = _dimension(cross.size, blocks)
                raise InvalidInput(
                    "dimension", batch.dimension, f"earlier batches have D = {before}"
                )
            for start in range(0, batch.count, _CHUNK):
                chunk = batch.part(start, start + _CHUNK)
                features = chunk.features(blocks)
                second += features.T @ features
                cross += features.T @ chunk.target
                power += float(chunk.target @ chunk.target)
            count += batch.count
            lengths.add(batch.fixed_length)
        if second is None or cross is None:
            raise InvalidInput("batches", [], "must hold at least one batch of prompts")
        length = lengths.pop() if len(lengths) == 1 else None
        return cls(second / count, cross / count, power / count, count, length, blocks)

    def mixed(self, share: float, other: Statistics) -> Statistics:
        """The statistics of a `share` of these prompts and the rest of others."""
        rest = 1 - share
        length = self.context_length if self.context_length == other.context_length else None
        return Statistics(
            second_moment=share * self.second_moment + rest * other.second_moment,
            cross_moment=share * self.cross_moment + rest * other.cross_moment,
            label_power=share * self.label_power + rest * other.label_power,
            count=None if self.count is None or other.count is None else self.count + other.count,
            context_length=length,
            blocks=self.blocks,
        )

    @property
    def fixed_length(self) -> int | None:
        return self.context_length

    @property
    def dimension(self) -> int:
        return _dimension(self.cross_moment.size, self.blocks)

    def linear_objective(self, blocks: str, gain: float) -> Objective:
        from saddlescope.risk import Objective, StatisticsRisk

        if blocks != self.blocks:
            raise InvalidInput("task.blocks", self.blocks, f"the model has blocks = {blocks!r}")
        return Objective(
            StatisticsRisk(
                gain=np.float64(gain),
                label_power=np.float64(self.label_power),
                cross_moment=self.cross_moment,
                second_moment=self.second_moment,
            )
        )

    def __repr__(self) -> str:
        source = "exact" if self.count is None else f"{self.count} prompts"
        return f"Statistics({source}, dimension={self.dimension})"


def _feature_count(dimension: int, blocks: str) -> int:
    return dimension**2 if blocks == "reduced" else dimension**3 + dimension**2 + dimension


def _dimension(features: int, blocks: str) -> int:
    return round(features**0.5) if blocks == "reduced" else int(features ** (1 / 3))
