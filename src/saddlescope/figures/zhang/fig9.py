"""Figure 9 of Zhang et al.: every rank from 1 to 8, and how long each plateau lasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.kit.panels import LOSS_LABEL, THEORY, colour, sheet
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import rank_runs
from saddlescope.figures.zhang.rank_runs import CONSPICUOUS, is_multiple
from saddlescope.setting import Setting

_PUBLISHED = rank_runs.RANKS.replace(until=60_000.0)
_COLUMNS = 4


@dataclass(frozen=True)
class Figure9(AbstractFigure):
    """All ranks in eight dimensions: where the loss rests, and for how long."""

    setting: Setting = _PUBLISHED
    ranks: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)

    id = "fig9"
    title = "Every rank: plateaus at multiples of R, and their lengths"
    source = "Zhang et al., Figure 9 (arXiv v1)"
    text = (
        "Figure 4 at every rank, with six seeds each: (a) to (h) the losses, with the levels at "
        "multiples of R dashed (numbered at the right) and the others dotted. (i) The length of "
        "the plateau after m eigenvectors, as a share of the time at its end: the median over "
        "seeds, where most of them determine it; multiples of R are framed. (j) The same for "
        "every run: filled at multiples of R, open at other m. None of the others is above the "
        "dashed line, at any rank. A plateau at a multiple can fall below it by chance, if two "
        "heads rise at nearly the same time; among more starts than these that happens to one in "
        "nine of those after the first drop at rank one, one in 25 at rank two, and fewer above. "
        "A plateau that outlasts the run is counted up to the end of the run, if it is already "
        "longer than that share."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "initial scale .01; published is 5e-3, on 80 000 prompts (see published-settings)",
    )
    seconds = 23.0
    varied = rank_runs.VARIED

    @classmethod
    def quick(cls) -> Figure9:
        return cls(rank_runs.QUICK_RANKS, ranks=(2, 3))

    def compute(self, watch: Watch) -> xr.Dataset:
        return rank_runs.train_ranks(watch, self.setting, self.ranks)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return rank_runs.rank_claims(data)

    def mistakes(self) -> tuple[Mistake, ...]:
        return rank_runs.rank_mistakes(self.setting)

    def draw(self, data: xr.Dataset) -> Sheet:
        count = data.sizes["rank"]
        rows = -(-count // _COLUMNS)
        drawing, axes = sheet(rows + 1, _COLUMNS, width=2.5, height=2.2)
        for index, panel in enumerate(axes[:-1].flat):
            if index >= count:
                panel.remove()
                continue
            rank_runs.draw_rank(panel, data.isel(rank=index), "abcdefgh"[index])
            if index % _COLUMNS == 0:
                panel.set(ylabel=LOSS_LABEL)
        _draw_table(drawing.join(axes[-1, :2]), data)
        _draw_shares(drawing.join(axes[-1, 2:]), data)
        return drawing.build()


def _draw_table(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The median length of every plateau, one row per rank; multiples of R are framed."""
    known = data["plateau_share"].notnull().sum("seed") > data.sizes["seed"] / 2
    share = data["plateau_share"].median("seed").where(known).to_numpy()
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1, square=False)
    for row, column in np.argwhere(np.isfinite(share)):
        ink = "white" if share[row, column] > 0.6 else "black"
        text = f"{100 * share[row, column]:.0f}"
        axes.text(column, row, text, color=ink, ha="center", va="center", fontsize=7)
    for row, column in np.argwhere(is_multiple(data, "plateau")):
        across = column + np.array([-0.47, 0.47, 0.47, -0.47, -0.47])
        down = row + np.array([-0.46, -0.46, 0.46, 0.46, -0.46])
        axes.plot(across, down, color=colour(1), linewidth=1.6)
    axes.xaxis.tick_at(range(share.shape[1]))
    axes.yaxis.tick_at(range(share.shape[0]), [str(int(rank)) for rank in data["rank"]])
    axes.set(xlabel="eigenvectors learned  $m$", ylabel="rank  $R$")
    axes.set_title("(i)  length of the plateau, % of the time at its end", loc="left")
    axes.box = "none"


def _draw_shares(axes: PanelBuilder, data: xr.Dataset) -> None:
    """Every plateau of every run but the first, by rank."""
    multiple = is_multiple(data, "plateau")
    share = data["plateau_share"].to_numpy()
    kinds = (
        ("at multiples of $R$", True, colour(0), colour(0)),
        ("at other $m$", False, colour(5), "none"),
    )
    for label, at_multiples, edge, face in kinds:
        chosen = np.isfinite(share) & (multiple == at_multiples)[:, None]
        chosen[:, :, 0] = False
        rank, seed, plateau = np.nonzero(chosen)
        sideways = (plateau - 3.5) * 0.06 + (seed - 2.5) * 0.012
        across = data["rank"].to_numpy()[rank] + sideways
        look = {"markersize": 3.2, "color": edge, "markerfacecolor": face, "label": label}
        axes.plot(across, share[chosen], "o", **look)
    axes.axhline(CONSPICUOUS, color="black", label=f"{CONSPICUOUS:.0%}", **THEORY)
    axes.set(yscale="log", xlabel="rank  $R$", ylabel="length / time at its end")
    axes.xaxis.tick_at(data["rank"].to_numpy())
    axes.set_title("(j)", loc="right")
    axes.legend()
