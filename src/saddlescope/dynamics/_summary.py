"""The summary of a run: when it drops, to which levels, and in which order it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.setting import Setting
from saddlescope.trajectory import Outcomes

if TYPE_CHECKING:
    import xarray as xr

AXES = {
    "drop_time": "drop",
    "plateau_loss": "level",
    "learned_time": "direction",
    "order": "place",
}
ABOUT = {
    "drop_time": "flow time at which the loss is midway between one level and the next",
    "plateau_loss": "loss where it changes least before, between and after the drops",
    "learned_time": "flow time at which an eigenvector has brought half of what it can bring",
    "order": "eigenvectors in the order in which they are learned, −1 where none is",
}


def last_losses(loss: FloatArray) -> FloatArray:
    """The last finite loss of every seed, [S], from all losses, [S, T]."""
    last = np.maximum(np.isfinite(loss).sum(axis=1) - 1, 0)
    return np.take_along_axis(loss, last[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class Summary:
    """A few numbers for every seed, NaN where there is none."""

    drop_time: FloatArray
    plateau_loss: FloatArray
    learned_time: FloatArray

    @classmethod
    def of(
        cls, drops: FloatArray, levels: FloatArray, learned: FloatArray, diverged: AnyArray
    ) -> Summary:
        """With NaN for diverging seeds: what they cross on their way means nothing."""
        return cls(
            *(np.where(diverged[:, None], np.nan, values) for values in (drops, levels, learned))
        )

    @property
    def order(self) -> AnyArray:
        """The directions in the order in which each seed learns them, [S, E]."""
        learned = self.learned_time
        # NaN sorts last: directions that are never learned have no place in the order.
        return np.where(np.isnan(np.sort(learned, axis=1)), -1, np.argsort(learned, axis=1))

    def dataset(self, setting: Setting) -> xr.Dataset:
        """The summary with named axes."""
        import xarray as xr

        values = {name: getattr(self, name) for name in ABOUT}
        summary = xr.Dataset(
            {name: (("seed", AXES[name]), array) for name, array in values.items()},
            {"seed": np.array(setting.seeds), **axis_labels(values)},
        )
        for name, text in ABOUT.items():
            summary[name].attrs["long_name"] = text
        return summary


@dataclass(frozen=True)
class RunSummary:
    """The summary of a setting's seeds, and how each of them ended.

    `initial_loss` and `final_loss` are [S].

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> (few,) = ss.summarise_many([ss.Setting(model, task, method, seeds=3)])
    >>> few.final_loss.shape, few.outcomes[0].result
    ((3,), <Result.FINISHED: 'finished'>)
    """

    outcomes: Outcomes
    initial_loss: FloatArray
    final_loss: FloatArray
    summary: Summary | None
    """The events noted on the way, None where none were."""


def axis_labels(values: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Drops are numbered from one, levels from zero, before the first drop."""
    return {
        "drop": np.arange(1, values["drop_time"].shape[1] + 1),
        "level": np.arange(values["plateau_loss"].shape[1]),
    }
