"""Beyond the papers: dormant heads as particles, and the drops that follow from it (T18)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import SeparateAttention
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import Record
from saddlescope.figures.beyond.particles import NEAR, head_numbers
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE, initial_scale
from saddlescope.setting import Setting
from saddlescope.theory import dormant_staircase, runaway_times

_STARTS = STAIRCASE.replace(keep="drops", seeds=12, init_scale=1e-3, until=600_000.0)
# The records of single heads.
_RECORDS = 3000


@dataclass(frozen=True)
class DormantHeads(AbstractFigure):
    """Heads in their potentials, and drop times by quadrature over four decades of the scale."""

    setting: Setting = _STARTS
    lone_heads: tuple[int, ...] = (2, 55, 12, 7)
    scales: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

    varied = (*FIXED, "rank", "normalisation", "blocks", "points", "at", "spacing", "keep")

    id = "dormant-heads"
    title = "A dormant head is a particle"
    source = "Beyond the papers (T18)"
    text = (
        "Before it learns, a head of separate attention feels only a constant drive, and its "
        "value v moves like the velocity of a particle: with θ the integral of v, v² = F(θ), a "
        "convex function that its initial weights determine. (a) F for four random heads "
        "(dashed), and each of them trained alone (points), in units of the scale w of the start "
        "and in the direction of its first step. Where F reaches zero ahead of it, a head turns "
        "back (circles), once, and climbs the other side. (b) Their values over time, with the "
        "predicted times of their runaway (dotted lines). (c) From this alone, the drop times of "
        "whole staircases over four decades of w, measured against predicted. (d) Their relative "
        "error, median and worst over all starts: of order w for the later drops, and for the "
        "first one no more than the tolerance of the solver once w is small."
    )
    seconds = 25.0

    @classmethod
    def quick(cls) -> DormantHeads:
        return cls(_STARTS.replace(seeds=6), scales=(1e-1, 1e-2))

    def compute(self, watch: Watch) -> xr.Dataset:
        base, scale = self.setting, initial_scale(self.setting)
        lone = base.replace(
            model=SeparateAttention(heads=1),
            seeds=self.lone_heads,
            record=Record(points=_RECORDS),
        )
        starts = lone.init.ensemble(lone.model, lone.task, np.array(lone.seeds))
        until = 1.02 * float(runaway_times(lone.model, lone.task, starts).max())
        data = head_numbers(watch.train("lone", lone.replace(until=until)), scale)
        measured, predicted = [], []
        for one in watch.each(self.scales):
            setting = base.replace(init_scale=one, until=base.method.end * scale / one)
            run = watch.train(f"scale-{one:g}", setting)
            measured.append(run.summary()["drop_time"].to_numpy())
            weights = setting.init.ensemble(setting.model, setting.task, np.array(setting.seeds))
            times = dormant_staircase(setting.model, setting.task, weights).time
            predicted.append(np.where(times <= setting.method.end, times, np.nan))
        dims = ("scale", "seed", "drop")
        return data.assign(
            drop_time=(dims, np.array(measured)),
            predicted_drop_time=(dims, np.array(predicted)),
            unit=scale,
        ).assign_coords(scale=list(self.scales))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        potential = data["potential"].to_numpy()
        dormant = np.isfinite(potential)
        whole = potential + potential[:, :1]
        turns = np.isfinite(data["turning_point"].to_numpy())
        turned = np.abs(np.diff(np.sign(data["value"].to_numpy()), axis=1)) > 1
        error, scale = _errors(data), data["scale"].to_numpy()
        small = scale <= 0.01
        return (
            at_most(
                "while a head is dormant, v² = F(θ) (T18): error as a share of F(θ) + F(0)",
                (np.abs(data["value"].to_numpy() ** 2 - potential) / whole)[dormant],
                1.5e-4,
            ),
            equal(
                "the heads that turn back are those for which F has a root ahead of them",
                np.isfinite(data["measured_turning_point"]),
                turns,
            ),
            relatively_within(
                "they turn back at that root: θ of the turn",
                data["measured_turning_point"].to_numpy()[turns],
                data["turning_point"].to_numpy()[turns],
                1e-5,
            ),
            at_most("no head turns back more than once: turns of a head", turned.sum(axis=1), 1),
            relatively_within(
                "each head runs away at the time that its integral gives",
                data["measured_runaway"],
                data["runaway"].to_numpy(),
                1e-4,
            ),
            at_most(
                "first drops at w ≤ .01 come at the times given by quadrature (T18): largest "
                "relative error",
                error[small, :, 0],
                2e-5,
            ),
            at_most(
                "later drops come at the times given by quadrature up to order w (T18): median "
                "relative error/w, at each scale",
                np.nanmedian(error[:, :, 1:], axis=(1, 2)) / scale,
                0.4,
            ),
            equal(
                "the drops that do not come by the end of the run are those predicted not to",
                np.isfinite(data["drop_time"]),
                np.isfinite(data["predicted_drop_time"]),
                "drops come, or do not, as predicted",
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("F without its factor one quarter", 4.0, "potential"),
            rolled("the potentials of other heads", "head", "potential"),
            scaled("c in place of c² in the integral", 1.01, "runaway"),
            rolled("runaways of other heads", "head", "runaway"),
            scaled("a root that is a thousandth off", 1.001, "turning_point"),
            rolled("turning points of other heads", "head", "turning_point"),
            scaled("drops at the runaway, without the delay", 1.001, "predicted_drop_time"),
            rolled("drops of another scale", "scale", "predicted_drop_time"),
            rolled("drops of other seeds", "seed", "predicted_drop_time"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_potentials, _draw_values, _draw_times, _draw_errors)
        return panels.grid(draws, data, 2, width=3.7, height=2.9).build()


def _errors(data: xr.Dataset) -> FloatArray:
    """The relative error of every drop, over (scale, seed, drop)."""
    return np.abs(data["predicted_drop_time"].to_numpy() / data["drop_time"].to_numpy() - 1)


def _draw_potentials(axes: PanelBuilder, data: xr.Dataset) -> None:
    """F over θ near the start, where heads turn, with the heads as trained on it."""
    for index in range(data.sizes["head"]):
        own, tint = data.isel(head=index), panels.colour(index)
        label = "$F$ (T18)" if index == 0 else None
        axes.plot(data["near"], own["near_potential"], color=tint, label=label, **panels.THEORY)
        some = own.isel(record=slice(None, None, 40))
        label = "training" if index == 0 else None
        axes.plot(some["theta"], some["value"] ** 2, ".", color=tint, markersize=4, label=label)
        axes.plot(own["turning_point"], 0.0, color=tint, **panels.CIRCLES)
        axes.plot(0.0, float(own["potential"][0]), "|", color=tint, markersize=9)
    axes.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlim=NEAR, ylim=(-0.4, 3), xlabel=r"$\theta = \int v\,dt$", ylabel=r"$v^2/w^2$")
    axes.legend()


def _draw_values(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The values of the same heads until they run away."""
    unit = float(data["unit"])
    for index in range(data.sizes["head"]):
        own, tint = data.isel(head=index), panels.colour(index)
        label = "training" if index == 0 else None
        axes.plot(unit * own["time"], own["value"], color=tint, label=label)
        label = "runs away (T18)" if index == 0 else None
        axes.axvline(unit * float(own["runaway"]), color=tint, linestyle=":", label=label)
    axes.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(ylim=(-6, 6), xlim=(0, None), xlabel=r"$w\,t$", ylabel="$v/w$")
    axes.legend()


def _draw_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    """Every drop at every scale, measured against predicted."""
    tints = panels.shades(data.sizes["scale"])
    measured = data["drop_time"].to_numpy()
    ends = np.array([0.6 * np.nanmin(measured), 1.6 * np.nanmax(measured)])
    axes.plot(ends, ends, color="black", zorder=0, label="equal", **panels.THEORY)
    for index, tint in enumerate(tints):
        predicted, drops = (
            data[name][index].to_numpy().ravel() for name in ("predicted_drop_time", "drop_time")
        )
        look = {**panels.CIRCLES, "color": tint, "markersize": 4}
        axes.plot(predicted, drops, label=f"$w=${_power(float(data['scale'][index]))}", **look)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel=r"predicted drop time  $t/\tau$", ylabel=r"measured drop time  $t/\tau$")
    axes.legend(3)


def _draw_errors(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The errors of first and later drops over the scale."""
    error, scale = _errors(data), data["scale"].to_numpy()
    parts = (("first drop", error[:, :, :1], "s"), ("later drops", error[:, :, 1:], "o"))
    for index, (name, part, mark) in enumerate(parts):
        flat, tint = part.reshape(len(scale), -1), panels.colour(index)
        axes.plot(scale, np.nanmedian(flat, axis=1), marker=mark, color=tint, label=name)
        worst = np.nanmax(flat, axis=1)
        axes.plot(scale, worst, marker=mark, color=tint, linestyle=":", markerfacecolor="none")
    look = {"color": panels.THEORY_COLOUR, "label": r"$\propto w$", **panels.THEORY}
    axes.plot(scale, scale, **look)
    axes.set(xscale="log", yscale="log", xlabel="scale of the start  $w$")
    axes.set(ylabel="relative error: median, worst (dotted)")
    axes.legend()


def _power(scale: float) -> str:
    """A scale by its power of ten, where it is one."""
    power = np.log10(scale)
    return f"$10^{{{power:.0f}}}$" if np.isclose(power, round(power)) else f"{scale:g}"
