"""Figure 4 of Zhang et al.: the plateaus of separate attention of rank R are at multiples of R."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import Entry, Sheet
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import rank_runs, staircase
from saddlescope.setting import Setting

_CIRCLES = {**panels.CIRCLES, "markersize": 4.5}


@dataclass(frozen=True)
class Figure4(AbstractFigure):
    """Ranks 1, 2, 4 and 8 in eight dimensions, with the drops that T13 predicts."""

    setting: Setting = rank_runs.RANKS
    ranks: tuple[int, ...] = (1, 2, 4, 8)
    predicted_seeds: int = 2

    id = "fig4"
    title = "At rank R the conspicuous plateaus are those at multiples of R"
    source = "Zhang et al., Figure 4 (arXiv v1)"
    text = (
        "Separate key and query of rank R in eight dimensions, with eigenvalues proportional to "
        "1/d: the loss of every seed on a logarithmic time axis. Dashed lines are the losses of "
        "the fixed points after 0, R, 2R, … eigenvectors (numbered at the right), dotted lines "
        "the others. Each new head waits long at a dashed level, then learns R eigenvectors in "
        "quick succession, passing the dotted levels without a rest. Circles are the drops "
        "predicted from the initial weights alone, for the first seeds. At rank one every level "
        "is a multiple, but not every plateau is long: where two heads happen to rise at nearly "
        "the same time, the plateau between them is short (about one in nine of those after the "
        "first drop)."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "initial scale .01; published is 5e-3, on 80 000 prompts (see published-settings)",
    )
    seconds = 16.0
    varied = rank_runs.VARIED

    @classmethod
    def quick(cls) -> Figure4:
        return cls(rank_runs.QUICK_RANKS, ranks=(2, 4), predicted_seeds=1)

    def compute(self, watch: Watch) -> xr.Dataset:
        data = rank_runs.train_ranks(watch, self.setting, self.ranks)
        settings = [self.setting.replace(rank=rank) for rank in self.ranks]
        seeds = self.setting.seeds[: self.predicted_seeds]
        predicted = [
            [staircase.predicted_drop_times(one, seed) for seed in seeds] for one in settings
        ]
        return data.assign(
            predicted_drop_time=(("rank", "predicted_seed", "drop"), np.array(predicted))
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        name = (
            "drops come at the times predicted from the initial weights alone, at every rank (T13)"
        )
        first = data.isel(seed=slice(data.sizes["predicted_seed"]))
        return (
            *rank_runs.rank_claims(data),
            staircase.timing_claim(name, first, 0.006),
            staircase.missing_claim(first),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *rank_runs.rank_mistakes(self.setting),
            scaled("drops late by a hundredth of their time", 1.01, "drop_time"),
            scaled("predictions of a start twice as large", 0.5, "predicted_drop_time"),
            rolled("drops of other seeds", "seed", "drop_time"),
            rolled("predictions of another rank", "rank", "predicted_drop_time"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        count = data.sizes["rank"]
        drawing, axes = panels.sheet_of(count, min(2, count), width=3.6, height=2.4, sharey=True)
        middles = staircase.midway(data["level_loss"].to_numpy())
        for index, panel in enumerate(axes.flat[:count]):
            one = data.isel(rank=index)
            rank_runs.draw_rank(panel, one, "abcdefgh"[index])
            for row, times in enumerate(one["predicted_drop_time"]):
                label = f"seed {int(data['seed'][row])}, predicted (T13)"
                panel.plot(times, middles, color=panels.colour(row), label=label, **_CIRCLES)
        for row in axes:
            row[0].set(ylabel=panels.LOSS_LABEL)
        drawing.legend(_entries(), 4, "above")
        return drawing.build()


def _entries() -> list[Entry]:
    looks = {
        "training, one line a seed": {"color": panels.colour(0)},
        "levels at multiples of $R$ (T7)": {"color": panels.THEORY_COLOUR, **panels.THEORY},
        "other levels": {"color": "#AAAAAA", "linestyle": ":", "linewidth": 0.7},
        "drops (T13)": {"color": panels.colour(0), **_CIRCLES},
    }
    return [panels.entry(label, **look) for label, look in looks.items()]
