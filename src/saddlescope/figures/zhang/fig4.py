"""Figure 4 of Zhang et al.: the plateaus of separate attention of rank R are at multiples of R."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from saddlescope.checks import FloatArray
from saddlescope.figures.kit.claim import Claim, equal, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import LOSS_LABEL, THEORY, THEORY_COLOUR, colour, sheet
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.rank_runs import (
    QUICK_RANKS,
    RANKS,
    draw_rank,
    rank_claims,
    rank_runs,
)
from saddlescope.setting import Setting
from saddlescope.theory import predict_staircase


@dataclass(frozen=True)
class Figure4(AbstractFigure):
    """Ranks 1, 2, 4 and 8 in eight dimensions, with the drops that T13 predicts."""

    setting: Setting = RANKS
    ranks: tuple[int, ...] = (1, 2, 4, 8)
    predicted_seeds: int = 2

    id = "fig4"
    title = "At rank R the conspicuous plateaus are those at multiples of R"
    source = "Zhang et al., Figure 4 (arXiv v1)"
    text = (
        "Separate key and query of rank R in eight dimensions, eigenvalues in proportion to 1/d. "
        "The loss of every seed on a logarithmic clock; dashed are the losses of the fixed points "
        "after 0, R, 2R, … eigenvectors (numbered at the right), dotted the others. Each new head "
        "waits long at a dashed level, then learns R eigenvectors in quick succession, passing "
        "the dotted levels without a rest. Circles are the drops predicted from the initial "
        "weights alone, for the first seeds. At rank one every level is a multiple, but not every "
        "plateau is long: where two heads rise by chance at nearly the same time, the plateau "
        "between them is short (about one in nine of those after the first drop)."
    )
    seconds = 16.0

    @classmethod
    def quick(cls) -> Figure4:
        return cls(QUICK_RANKS, ranks=(2, 4), predicted_seeds=1)

    def compute(self, watch: Watch) -> xr.Dataset:
        data = rank_runs(watch, self.setting, self.ranks)
        predicted = [self._predicted(self.setting.replace(rank=rank)) for rank in self.ranks]
        data["predicted_drop_time"] = (("rank", "predicted_seed", "drop"), np.array(predicted))
        return data

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        measured = data["drop_time"].to_numpy()[:, : data.sizes["predicted_seed"]]
        predicted = data["predicted_drop_time"].to_numpy()
        seen = np.isfinite(measured)
        return (
            *rank_claims(data),
            relatively_within(
                "drops come when predicted from the initial weights alone, at every rank (T13)",
                measured[seen],
                predicted[seen],
                0.01,
            ),
            equal(
                "drops that do not come by the end of the run are those predicted not to (T13)",
                seen,
                np.isfinite(predicted),
            ),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        columns = min(2, data.sizes["rank"])
        rows = -(-data.sizes["rank"] // columns)
        drawing, axes = sheet(rows, columns, width=3.6, height=2.4, sharey=True)
        levels = data["level_loss"].to_numpy()
        for place, panel in enumerate(axes.flat):
            if place >= data.sizes["rank"]:
                panel.remove()
                continue
            one = data.isel(rank=place)
            draw_rank(panel, one, "abcdefgh"[place])
            for row, seed in enumerate(data["seed"].to_numpy()[: data.sizes["predicted_seed"]]):
                panel.plot(
                    one["predicted_drop_time"][row],
                    (levels[:-1] + levels[1:]) / 2,
                    "o",
                    color=colour(row),
                    markerfacecolor="none",
                    markersize=4.5,
                    label=f"seed {seed}, predicted (T13)",
                )
        for row in axes:
            row[0].set_ylabel(LOSS_LABEL)
        drawing.legend(handles=_handles(), loc="outside upper left", ncols=4, fontsize=7.5)
        return drawing

    def _predicted(self, setting: Setting) -> list[FloatArray]:
        """The drop times of the first seeds by T13, NaN where none comes by the end."""
        model, task = setting.model, setting.task
        rows = []
        for seed in setting.seeds[: self.predicted_seeds]:
            weights = setting.init.weights(model, task, seed)
            drops = predict_staircase(model, task, weights, until=setting.method.end).drops
            row = np.full(task.dimension, np.nan)
            row[: len(drops)] = [drop.time for drop in drops]
            rows.append(row)
        return rows


def _handles() -> list[Line2D]:
    return [
        Line2D([], [], color=colour(0), label="training, one line a seed"),
        Line2D([], [], color=THEORY_COLOUR, label="levels at multiples of $R$ (T7)", **THEORY),
        Line2D([], [], color="#AAAAAA", linestyle=":", linewidth=0.7, label="other levels"),
        Line2D(
            [],
            [],
            color=colour(0),
            marker="o",
            markersize=4.5,
            markerfacecolor="none",
            linestyle="none",
            label="drops (T13)",
        ),
    ]
