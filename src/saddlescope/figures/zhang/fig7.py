"""Figure 7 of Zhang et al.: the times t_1 … t_D at which the staircase of Figure 3 drops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled
from saddlescope.figures.kit.panels import colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import plateau_waits, staircase
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.theory import dormant_staircase, modes, plateau_losses

# Records begin at this share of the run, before the first drop.
_FIRST_RECORD = 1 / 300
# From random starts the estimate is this share of the wait in the median, of thirty waits.
_ESTIMATED_SHARE = 0.64


@dataclass(frozen=True)
class Figure7(AbstractFigure):
    """How long each plateau lasts: the estimate of Z 68 and 73, T12, T13 and T18 beside the run."""

    setting: Setting = staircase.STAIRCASE
    starts: int = 100

    id = "fig7"
    title = "How long each plateau lasts"
    source = "Zhang et al., Figure 7 (arXiv v1)"
    text = (
        "The runs of Figure 3. (a) One seed: its drops at t_1, …, t_D, those predicted from the "
        "initial weights (circles), and those estimated by the paper, one plateau after another "
        "(crosses). (b) The wait for every drop against the paper's estimate τ/(λ_d² v), where v "
        "is the value, at the start of the plateau, of the head that will learn. If heads start "
        "on the eigenvectors with value, key and query of equal length, as the estimate assumes, "
        "it is right to two per cent; from the papers' own random starts it gives only the scale, "
        "usually about two thirds of the wait. (c) The reason: the estimated over the actual time "
        "left, along the plateau. Key and query of the head must first turn to the eigenvector; "
        "once they have, the estimate is right. Times are inversely proportional to the scale of "
        "the start, as estimated, except in a few close races between heads (5 of 114 drops of "
        "thirty starts are off by over two per cent), and predicting the course of each head "
        "(T13) gives them to a per cent. An integral over the initial weights generalises 1/(λ_d² "
        "v) to any head (T18, triangles): it gives the first drop, and the later ones up to order "
        "w. Over a hundred starts, of which only the drops are kept, the spread of the times t_m "
        "grows with m, as published. In the median, later plateaus last longer from the second "
        "on; the first, on which heads still turn, is longer than the second in most starts, and "
        "only in a few does every plateau outlast the one before."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "carried to flow time 60 000",
    )
    seconds = 7.0
    varied = (*staircase.FIXED, "rank", "at", "spacing")

    @classmethod
    def quick(cls) -> Figure7:
        return cls(staircase.QUICK_STAIRCASE, starts=20)

    def compute(self, watch: Watch) -> xr.Dataset:
        base, scale = self.setting, staircase.initial_scale(self.setting)
        scales = scale * np.linspace(1.0, 0.5, len(base.seeds))
        aligned = plateau_waits.aligned_start(base.task, base.model.heads, scales)
        settings = {
            "random": base,
            "halved": base.replace(init_scale=scale / 2, until=2 * base.method.end),
            "aligned": base.replace(init=GivenStart(aligned, base.seeds)),
        }
        points = base.record.points - 1
        random, halved, aligned_run = (
            watch.train(name, staircase.on_logarithmic_grid(one, _FIRST_RECORD, points))
            for name, one in watch.each(settings.items())
        )
        data = plateau_waits.random_waits(random).merge(plateau_waits.aligned_waits(aligned_run))
        drops = drop_times(halved.loss, plateau_losses(base.task), halved.time)
        starts = base.init.ensemble(base.model, base.task, np.array(base.seeds))
        integrals = dormant_staircase(base.model, base.task, starts).time
        came = np.where(integrals <= base.method.end, integrals, np.nan)
        many = watch.train("starts", base.replace(keep="drops", seeds=self.starts))
        return data.assign(
            halved_drop_time=(("seed", "drop"), drops),
            integral_drop_time=(("seed", "drop"), came),
            start_drop_time=(("start", "drop"), many.summary()["drop_time"].to_numpy()),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["drop_time"].to_numpy())
        wait, estimate = (data[name].to_numpy()[seen] for name in ("wait", "estimated_wait"))
        aligned = np.isfinite(data["aligned_wait"].to_numpy())
        # For a head that turns only during its drop nothing of the wait is left.
        turned = np.isfinite(data["predicted_rest"].to_numpy())
        rest, predicted = (
            data[name].to_numpy()[turned] for name in ("rest_of_wait", "predicted_rest")
        )
        twice = seen & np.isfinite(data["halved_drop_time"].to_numpy())
        whole, halved = (data[name].to_numpy()[twice] for name in ("drop_time", "halved_drop_time"))
        integrals = data["integral_drop_time"].to_numpy()
        off = np.abs(integrals / data["drop_time"].to_numpy() - 1)
        return (
            *_spread_claims(data["start_drop_time"].to_numpy()),
            relatively_within(
                "from starts on the eigenvectors, the wait for each drop is τ/(λ_d² v)",
                data["aligned_wait"].to_numpy()[aligned],
                data["aligned_estimate"].to_numpy()[aligned],
                0.025,
            ).stated_in("Z 68, 73"),
            relatively_within(
                "from random starts too, the wait for each drop is τ/(λ_d² v), v of the head "
                "that will learn",
                wait,
                estimate,
                0.1,
            )
            .stated_in("Z 68, 73")
            .expected_to_fail(
                "the estimate supposes a head with v = ‖k‖ = ‖q‖ on its eigenvector; from a random "
                "start key and query must turn to it first, which takes a good part of the wait"
            ),
            within(
                "from random starts the estimate gives the scale of the wait: estimate over "
                "wait, median",
                np.median(estimate / wait),
                _ESTIMATED_SHARE,
                0.1,
            ),
            at_most(
                "once the head has turned to its eigenvector, the rest of the wait is that of "
                "one head (T12): 90th percentile of the relative error",
                np.quantile(np.abs(rest / predicted - 1), 0.9),
                0.08,
            ),
            at_most(
                "halving the initial weights doubles the drop times (t ∝ 1/v): 90th percentile "
                "of the relative error",
                np.quantile(np.abs(halved / (2 * whole) - 1), 0.9),
                0.015,
            ).stated_in("Z 68, 73"),
            staircase.timing_claim(
                "drops come at the times predicted from the initial weights alone (T13)",
                data,
                0.005,
            ),
            at_most(
                "from any start the first drop comes at the time of T18's integral, which "
                "generalises 1/(λ² v): relative error",
                off[:, 0],
                1e-5,
            ),
            at_most(
                "later drops come at the times of T18's integrals up to order w: median "
                "relative error",
                np.nanmedian(off[:, 1:]),
                0.005,
            ),
            at_most(
                "T18's integrals, all drops: largest relative error", off[np.isfinite(off)], 0.1
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        values = np.sort(modes(self.setting.task).drive)[::-1]
        return (
            scaled("the estimate of Z 68 three times too large", 3.0, "estimated_wait"),
            scaled("the estimate of Z 68 half as large", 0.5, "estimated_wait"),
            scaled("λ in place of λ²", np.sqrt(values), "aligned_estimate", "estimated_wait"),
            scaled("the same start where it should be halved", 0.5, "halved_drop_time"),
            scaled("drops a hundredth late", 1.01, "drop_time"),
            scaled("steps of rate .02 in place of flow time", 1 / 0.04, "drop_time"),
            rolled("predictions of other seeds", "seed", "predicted_drop_time"),
            rolled("integrals of other seeds", "seed", "integral_drop_time"),
            scaled("integrals without the delay before half-way", 1.001, "integral_drop_time"),
            scaled("one head with a tenth more to wait", 1.1, "predicted_rest"),
            changed("drops counted from the last", "start_drop_time", by=lambda one: one[:, ::-1]),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_times, _draw_waits, _draw_progress)
        drawing = panels.grid(draws, data, 3, width=3.4, height=3.0)
        for panel in drawing.panels:
            panel.legend(2)
        return drawing.build()


def _spread_claims(drops: FloatArray) -> tuple[Claim, ...]:
    """How drop times `[start, drop]` spread, and which plateaus last longer (Z 4.3, D.6)."""
    waits = np.diff(drops, axis=1, prepend=0.0)
    longer = waits[:, 1:] > waits[:, :-1]
    whole = np.isfinite(drops).all(axis=1)
    # Drops that have not come yet come later than all that have.
    quartiles = np.quantile(
        np.where(np.isnan(drops), np.inf, drops), [0.25, 0.75], axis=0, method="lower"
    )
    known = np.isfinite(quartiles[1])
    spread = quartiles[1, known] - quartiles[0, known]
    typical = np.median(np.where(np.isnan(waits), np.inf, waits)[:, known], axis=0)
    return (
        at_least(
            "the spread of the drop times t_m over random starts grows with m: interquartile "
            "range over that of the drop before",
            spread[1:] / spread[:-1],
            1.3,
        ).stated_in("Z section D.6"),
        equal(
            "later plateaus last longer: number of starts, of those that drop D times, in which "
            "each plateau outlasts the one before",
            longer[whole].all(axis=1).sum(),
            whole.sum(),
        )
        .stated_in("Z section 4.3")
        .expected_to_fail(
            "so it is in 23 of the first 169 starts that drop four times; in six of ten the first "
            "plateau, on which heads still turn, is longer than the second"
        ),
        at_least(
            "in the median, the third and later plateaus outlast the one before: ratio of the two",
            typical[2:] / typical[1:-1],
            2.0,
        ),
        at_most(
            "in the median, the second plateau does not outlast the first: ratio of the two",
            typical[1] / typical[0],
            0.9,
        ),
    )


def _draw_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    """One seed's loss with its drops: measured, predicted and estimated."""
    one = data.isel(seed=staircase.clearest_seed(data["drop_time"].to_numpy()))
    levels, drops = one["level_loss"].to_numpy(), one["drop_time"].to_numpy()
    estimates = one["estimated_wait"].to_numpy() + np.concatenate([[0.0], drops[:-1]])
    middles, circles = staircase.midway(levels), {"color": colour(0), **panels.CIRCLES}
    panels.levels(axes, levels)
    axes.plot(one["time"], one["loss"], color=colour(0), label="training")
    axes.plot(one["predicted_drop_time"], middles, label="predicted (T13)", **circles)
    triangles = {**circles, "marker": "^", "color": colour(3), "markersize": 4}
    axes.plot(one["integral_drop_time"], middles, label="integrals (T18)", **triangles)
    axes.plot(estimates, middles, "x", color=colour(5), label="estimated (Z 68, 73)")
    for number, point in enumerate(zip(drops, middles, strict=True), start=1):
        if np.isfinite(point[0]):
            axes.text(*point, f"$t_{number}$", shift=(7, 2))
    first = 0.5 * float(np.nanmin([np.nanmin(drops), np.nanmin(estimates)]))
    axes.set(xscale="log", xlim=(first, float(one["time"][-1])), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)


def _draw_waits(axes: PanelBuilder, data: xr.Dataset) -> None:
    """Measured against estimated: random and aligned starts, and drop times by T13 and T18."""
    pairs = (
        ("estimated_wait", "wait", "x", colour(5), "wait, random starts"),
        ("aligned_estimate", "aligned_wait", "s", colour(2), "wait, starts on $e_d$"),
        ("predicted_drop_time", "drop_time", "o", colour(0), "drop time, T13"),
        ("integral_drop_time", "drop_time", "^", colour(3), "drop time, T18"),
    )
    for predicted, measured, marker, ink, label in pairs:
        look = {**panels.CIRCLES, "marker": marker, "color": ink, "markersize": 4.5}
        x, y = (data[name].to_numpy().ravel() for name in (predicted, measured))
        axes.plot(x, y, label=label, **look)
    ends = np.array([150.0, 1e5])
    axes.plot(ends, ends, color="black", zorder=0, label="equal", **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel=r"estimated or predicted,  $t/\tau$", ylabel=r"measured,  $t/\tau$")


def _draw_progress(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The estimated over the actual time left, along every plateau."""
    styles = ("-", "--", "-.", ":")
    for drop in range(data.sizes["drop"]):
        look = {"linestyle": styles[drop % 4], "linewidth": 1.0, "color": colour(drop)}
        ratios = data["estimate_ratio"][:, drop]
        panels.seed_curves(axes, data["progress"], ratios, f"plateau {drop}", **look)
    axes.axhline(1.0, color="black", zorder=0, **panels.THEORY)
    axes.set(xlabel="share of the plateau that has passed", ylim=(0, 1.75))
    axes.set(ylabel=r"$\tau/(\lambda_d^2 v(t))$ over the time left")
