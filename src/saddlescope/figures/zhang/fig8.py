"""Figure 8 of Zhang et al.: at rank R a new value grows exactly when m is a multiple of R."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import SeparateAttention
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import staircase
from saddlescope.measure import first_crossing
from saddlescope.setting import Setting
from saddlescope.theory import minimal_norm_weights, modes

_PUBLISHED = staircase.STAIRCASE.replace(until=30_000.0)
# Records are logarithmic and begin at this share of the run, before the first drop.
_FIRST_RECORD = 1 / 40


@dataclass(frozen=True)
class Figure8(AbstractFigure):
    """Ranks 2, 3 and 4 of Figure 3: which values have grown after m eigenvectors."""

    setting: Setting = _PUBLISHED
    ranks: tuple[int, ...] = (2, 3, 4)

    id = "fig8"
    title = "A new value grows exactly when m is a multiple of R"
    source = "Zhang et al., Figure 8 (arXiv v1)"
    text = (
        "Figure 3 at ranks 2, 3 and 4. Top: the loss of every seed, the levels of the fixed "
        "points (dashed) and the drops predicted from the initial weights (circles). Bottom: the "
        "value weight of the head that grows first, of the one that grows second and of all "
        "others, against the number of eigenvectors learned so far (the sum of the learned "
        "shares), all seeds superimposed. A head whose value has grown takes R eigenvectors, and "
        "its value follows that of the minimal-norm weights that carry them (dashed; squares at "
        "the fixed points); the next value grows when m is a multiple of R (grey). This is usual, "
        "but not universal: in 4 of 90 runs (thirty starts of each rank, not shown) two heads "
        "rise at nearly the same time and share an eigenvector."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "carried to flow time 30 000",
    )
    seconds = 10.0
    varied = (*staircase.FIXED, "rank", "at", "spacing")

    @classmethod
    def quick(cls) -> Figure8:
        return cls(_PUBLISHED.replace(seeds=2, points=800), ranks=(2,))

    def compute(self, watch: Watch) -> xr.Dataset:
        parts = [self._one_rank(watch, rank) for rank in watch.each(self.ranks)]
        return xr.concat(parts, xr.Variable("rank", list(self.ranks)), data_vars="all")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        level, rank = data["level"].to_numpy(), data["rank"].to_numpy()[:, None]
        reached = np.isfinite(data["plateau_loss"].to_numpy())
        resting = reached & ((level % rank == 0) | (level == level[-1]))[:, None]
        grown = np.broadcast_to(-(-level // rank)[:, None], reached.shape)
        new = np.isfinite(data["growth_time"].to_numpy())
        on_levels = np.broadcast_to(data["level_loss"].to_numpy()[:, None], reached.shape)
        shortest = data["minimal_value"].to_numpy()[:, None]
        large = resting[..., None] & (shortest > 0)
        return (
            equal(
                "once m eigenvectors are learned, ⌈m/R⌉ heads have a grown value weight: number "
                "of such heads",
                data["grown_values"].to_numpy()[reached],
                grown[reached],
                "plateaus with as many heads as predicted",
            ).stated_in("Z section E.4, Figure 8"),
            relatively_within(
                "a new head's value weight is half grown when the drop after m = 0, R, 2R, … "
                "comes: time of the one against the other",
                data["growth_time"].to_numpy()[new],
                data["drop_time"].to_numpy()[new],
                0.01,
            ).stated_in("Z Figure 8"),
            relatively_within(
                "on plateaus at multiples of R, and at the end, the value weights are those of "
                "the minimal-norm fixed point (T8)",
                data["plateau_value"].to_numpy()[large],
                np.broadcast_to(shortest, large.shape)[large],
                0.004,
            ),
            within(
                "plateaus at multiples of R lie at the losses of the fixed points (T7)",
                data["plateau_loss"].to_numpy()[resting],
                on_levels[resting],
                5e-6,
            ).stated_in("Z 24, 59"),
            *staircase.timing_claims(data, 0.002),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *staircase.wrong_levels(self.setting),
            *staircase.wrong_times(0.005),
            shifted("one head too many that has grown", 1.0, "grown_values"),
            rolled("heads counted from the drop before", "level", "grown_values"),
            rolled("the values of other heads", "head", "plateau_value"),
            scaled("weights two per cent longer than the shortest", 1.02, "minimal_value"),
            scaled("values half grown two per cent late", 1.02, "growth_time"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        count = data.sizes["rank"]
        drawing, axes = panels.sheet(2, count, width=3.1, height=2.5, sharey="row")
        for column in range(count):
            one = data.isel(rank=column)
            _draw_losses(axes[0, column], one)
            _draw_values(axes[1, column], one)
            for panel, letter in zip(axes[:, column], "abcdef"[column::count], strict=False):
                panel.set_title(f"({letter})  $R={int(one['rank'])}$", loc="right")
        axes[0, 0].set(ylabel=panels.LOSS_LABEL)
        axes[1, 0].set(ylabel=r"value weight  $|v_i|$")
        axes[1, 0].set(ylim=(-0.1, 1.05 * float(data["value"].max())))
        for panel in axes[:, 0]:
            panel.legend(2)
        return drawing.build()

    def _one_rank(self, watch: Watch, rank: int) -> xr.Dataset:
        setting = self.setting.replace(rank=rank)
        recorded = staircase.on_logarithmic_grid(setting, _FIRST_RECORD, setting.record.points)
        run, learned = watch.train(f"rank-{rank}", recorded), modes(setting.task)
        amplitude, basis = learned.amplitude[learned.order], learned.basis[:, learned.order]
        data = staircase.staircase_numbers(run).assign(
            learned_count=staircase.learned_share(run, amplitude, basis).sum("direction"),
            value=(("seed", "time", "head"), np.abs(run.dataset["v"].to_numpy())),
            minimal_value=(("level", "head"), self._shortest(rank)),
        )
        return _sorted_by_growth(data, rank)

    def _shortest(self, rank: int) -> FloatArray:
        """The value of the shortest head that carries what each head carries after m (T8)."""
        task = self.setting.task
        order, head = modes(task).order.tolist(), SeparateAttention(heads=1, rank=rank)
        values = np.zeros((len(order) + 1, self.setting.model.heads))
        for level in range(1, len(order) + 1):
            for index, begin in enumerate(range(0, level, rank)):
                subset = order[begin : min(begin + rank, level)]
                values[level, index] = minimal_norm_weights(head, task, subset)["v"][0]
        return values


def _sorted_by_growth(data: xr.Dataset, rank: int) -> xr.Dataset:
    """Heads in the order in which their values grow, when they grow, and how many have grown."""
    drops, winners = data["drop_time"].to_numpy(), staircase.winning_heads(data)
    time, levels = data["time"].to_numpy(), data.sizes["level"]
    shortest = data["minimal_value"].to_numpy()
    values = data["value"].to_numpy().copy()
    growth = np.full(drops.shape, np.nan)
    resting = np.full((len(drops), *shortest.shape), np.nan)
    grown = np.full((len(drops), levels), np.nan)
    for seed, row in enumerate(winners):
        first = list(dict.fromkeys(int(head) for head in row if np.isfinite(head)))
        others = [head for head in range(values.shape[2]) if head not in first]
        values[seed] = values[seed][:, first + others]
        for drop in range(0, len(row), rank):
            if np.isfinite(row[drop]):
                # Half of the value at which the head rests with its first eigenvector alone.
                half = shortest[drop + 1, drop // rank] / 2
                value = values[seed][:, drop // rank]
                growth[seed, drop] = first_crossing(value, half, time, rising=True)
        for level in range(levels):
            if level == 0 or np.isfinite(drops[seed, level - 1]):
                record = staircase.plateau_record(time, drops[seed], level)
                resting[seed, level] = values[seed, record]
                grown[seed, level] = (values[seed, record] > shortest[shortest > 0].min() / 2).sum()
    return data.assign(
        value=(("seed", "time", "head"), values),
        growth_time=(("seed", "drop"), growth),
        plateau_value=(("seed", "level", "head"), resting),
        grown_values=(("seed", "level"), grown),
    )


def _draw_losses(axes: PanelBuilder, one: xr.Dataset) -> None:
    staircase.draw_staircases(axes, one, markersize=4.5)
    limits = (0.6 * float(one["drop_time"].min()), float(one["time"][-1]))
    axes.set(xscale="log", xlim=limits, ylim=(0, None), xlabel=panels.TIME_LABEL)


def _draw_values(axes: PanelBuilder, one: xr.Dataset) -> None:
    rank, count = int(one["rank"]), one.sizes["drop"]
    growing = -(-count // rank)
    # Not numbered as heads 1, 2, …: they differ between seeds.
    names = [f"{order} head" for order in ("first", "second", "third")]
    names += [f"{number}th head" for number in range(4, growing + 1)]
    for head in reversed(range(one.sizes["head"])):
        grows = head < growing
        for seed in range(one.sizes["seed"]):
            tint = panels.colour(head if grows else 3)
            count_learned, value = one["learned_count"][seed], one["value"][seed, :, head]
            axes.plot(count_learned, value, color=tint, linewidth=1.2)
    for head in range(growing):
        axes.plot([], [], color=panels.colour(head), label=names[head])
    axes.plot([], [], color=panels.colour(3), label="all others")
    # The minimal-norm weights have v³ = tr W, also between two fixed points.
    fine = np.linspace(0, count, 40 * count + 1)
    for head in range(growing):
        shortest = one["minimal_value"][:, head]
        course = np.cbrt(np.interp(fine, one["level"], shortest**3))
        label = "shortest (T8)" if head == 0 else None
        axes.plot(fine, course, color="black", zorder=3, label=label, **panels.THEORY)
        axes.plot(one["level"], shortest, "s", color="black", markerfacecolor="none", markersize=4)
    for multiple in range(0, count, rank):
        axes.axvline(multiple, color="#AAAAAA", zorder=0, linewidth=0.7)
    axes.set(xlabel="eigenvectors learned  $m$")
    axes.xaxis.tick_at(range(count + 1))
