"""Figure 7 of Zhang et al.: the times t_1 … t_D at which the staircase of Figure 3 drops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from saddlescope.attention import GivenStart
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import plateau_waits, staircase
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.theory import dormant_staircase, plateau_losses

# The grid of records begins at this share of the run, before the first drop.
_FIRST_RECORD = 1 / 300


@dataclass(frozen=True)
class Figure7(AbstractFigure):
    """How long each plateau lasts: the estimate of Z 68 and 73, T12, T13 and T18 beside the run."""

    setting: Setting = staircase.STAIRCASE

    id = "fig7"
    title = "How long each plateau lasts"
    source = "Zhang et al., Figure 7 (arXiv v1)"
    text = (
        "The runs of Figure 3. (a) One seed: its drops at t_1, …, t_D, those predicted from the "
        "initial weights (circles) and those estimated by the paper, one plateau after another "
        "(crosses). (b) The wait for every drop against the paper's estimate τ/(λ_d² v), with v "
        "the value at the plateau's start of the head that will learn. Where heads start on the "
        "eigenvectors with value, key and query of one length, as the estimate supposes, it is "
        "right to two per cent; from the papers' own random starts it gives the scale alone, "
        "usually about half of the wait. (c) Why: the estimate of the time that is left, through "
        "the plateau. The key and query of the head must first turn to the eigenvector; once "
        "they have, the estimate is right. The times are in proportion to one over the scale of "
        "the start, as estimated, but for a few close races between heads (5 of 114 drops of "
        "thirty starts are off by over two per cent), and predicting each head's own course "
        "(T13) gives them to a per cent. What 1/(λ_d² v) is for a head on its eigenvector, an "
        "integral over the initial weights is for any head (T18, triangles): it gives the first "
        "drop, and the later ones up to the order of the scale."
    )
    seconds = 7.0
    varied = (*staircase.FIXED, "rank", "at", "spacing")

    @classmethod
    def quick(cls) -> Figure7:
        return cls(staircase.QUICK_STAIRCASE)

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
        return data.assign(
            halved_drop_time=(("seed", "drop"), drops), integral_drop_time=(("seed", "drop"), came)
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["drop_time"].to_numpy())
        wait, estimate = (data[name].to_numpy()[seen] for name in ("wait", "estimated_wait"))
        aligned = np.isfinite(data["aligned_wait"].to_numpy())
        # A head that turns only as it drops has no rest of the wait.
        turned = np.isfinite(data["predicted_rest"].to_numpy())
        rest, predicted = (
            data[name].to_numpy()[turned] for name in ("rest_of_wait", "predicted_rest")
        )
        twice = seen & np.isfinite(data["halved_drop_time"].to_numpy())
        whole, halved = (data[name].to_numpy()[twice] for name in ("drop_time", "halved_drop_time"))
        integrals = data["integral_drop_time"].to_numpy()
        off = np.abs(integrals / data["drop_time"].to_numpy() - 1)
        misses = np.maximum(estimate / wait, wait / estimate)
        return (
            relatively_within(
                "from starts on the eigenvectors each wait is τ/(λ_d² v) (Z 68, 73)",
                data["aligned_wait"].to_numpy()[aligned],
                data["aligned_estimate"].to_numpy()[aligned],
                0.03,
            ),
            relatively_within(
                "so it is from random starts, with v of the head that will learn (Z 68, 73)",
                wait,
                estimate,
                0.1,
            ).expected_to_fail(
                "the estimate supposes a head with v = ‖k‖ = ‖q‖ on its eigenvector; from a random "
                "start key and query must turn to it first, which takes about half of the wait"
            ),
            at_most(
                "from random starts the estimate is right in scale: it is off by a factor of, in "
                "the median",
                np.median(misses),
                3.0,
            ),
            at_most(
                "once the head has turned to its eigenvector the rest of the wait is that of one "
                "head (T12): relative error, in nine of ten waits at most",
                np.quantile(np.abs(rest / predicted - 1), 0.9),
                plateau_waits.TURNED,
            ),
            at_most(
                "halving the start doubles the drop times (Z 68, 73: t in proportion to 1/v): "
                "relative error, in nine of ten at most",
                np.quantile(np.abs(halved / (2 * whole) - 1), 0.9),
                0.02,
            ),
            staircase.timing_claim(
                "drops come when predicted from the initial weights alone (T13)", data
            ),
            at_most(
                "from any start the first comes when the integral that takes the place of 1/(λ² v) "
                "says (T18): relative error",
                off[:, 0],
                2e-5,
            ),
            at_most(
                "the later ones too, but for an error of the order of the scale: in the median",
                np.nanmedian(off[:, 1:]),
                0.005,
            ),
            at_most("and at worst", off[np.isfinite(off)], 0.1),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        draws = (_draw_times, _draw_waits, _draw_progress)
        drawing = panels.grid(draws, data, 3, width=3.4, height=3.0)
        for panel in drawing.axes:
            panels.legend(panel, 2)
        return drawing


def _draw_times(axes: Axes, data: xr.Dataset) -> None:
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
            axes.annotate(f"$t_{number}$", point, xytext=(7, 2), textcoords="offset points")
    first = 0.5 * float(np.nanmin([np.nanmin(drops), np.nanmin(estimates)]))
    axes.set(xscale="log", xlim=(first, float(one["time"][-1])), ylim=(0, None))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)


def _draw_waits(axes: Axes, data: xr.Dataset) -> None:
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


def _draw_progress(axes: Axes, data: xr.Dataset) -> None:
    """The estimate of what is left over what is left, through every plateau."""
    styles = ("-", "--", "-.", ":")
    for drop in range(data.sizes["drop"]):
        look = {"linestyle": styles[drop % 4], "linewidth": 1.0, "color": colour(drop)}
        ratios = data["estimate_ratio"][:, drop]
        panels.seed_curves(axes, data["progress"], ratios, f"plateau {drop}", **look)
    axes.axhline(1.0, color="black", zorder=0, **panels.THEORY)
    axes.set(xlabel="share of the plateau that has passed", ylim=(0, 1.75))
    axes.set(ylabel=r"$\tau/(\lambda_d^2 v(t))$ over the time left")
