"""Beyond the papers: how large a learning rate descends the staircase, and what comes beyond it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.beyond import stability
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE
from saddlescope.setting import Setting
from saddlescope.theory import plateau_losses, staircase_sharpness

# The course of the first one is shown.
_STARTS = STAIRCASE.replace(seeds=(5, 1, 2, 7), until=300_000.0)
# Beyond the first of these lengths and beyond that ratio of eigenvalues rotations are sharper.
_LENGTHS, _LAST_RATIO = (250, 1000, 10_000), 25.9
_BELOW, _ABOVE = 0.9, 1.1


@dataclass(frozen=True)
class EdgeOfStability(AbstractFigure):
    """The sharpness along descents of the staircase, against T21."""

    setting: Setting = _STARTS
    shares: tuple[float, ...] = (0.7, 0.8, 0.9, 1.02, 1.05, 1.1, 1.15, 1.2)
    near: float = 0.005
    near_steps: int = 2000
    courses: int = 120
    ratios: int = 49

    varied = (*FIXED, "rank", "at", "spacing", "points")

    id = "edge-of-stability"
    title = "How large a learning rate, and what comes beyond it"
    source = "Beyond the papers (T21)"
    text = (
        "The sharpness is the largest eigenvalue of the Hessian of the loss. Descent at the "
        "learning rate η can rest where it is below 2/η, and so on all plateaus if η is below the "
        "stable rate η* of T21. (a) The sharpness along two descents from one random start, which "
        "drops at the grey lines. Below η* it has on each plateau the closed form of T21; from "
        "the first drop on, that of the first head. Above η* it alternates between two values, "
        "until heads have come to share what one had learned. (b) Where descents end, from four "
        "starts. Below η* they end at the minimal-norm weights, one head for each eigenvector; "
        "above it at the same loss, on the edge of stability: heads share the first eigenvector "
        "so that the sharpness is 2/η. (c) From close to each fixed point, its unused heads at "
        "zero: at .995 of its stable rate descent settles there, at 1.005 it leaves, both at the "
        "rate of T21. (d) Where the rotation of a head from one eigenvector to another is sharper "
        "than the first head: only for contexts longer than 250 and eigenvalues further apart "
        "than 25.9 to 1."
    )
    seconds = 6.0

    @classmethod
    def quick(cls) -> EdgeOfStability:
        starts = _STARTS.replace(seeds=(5, 7), until=60_000.0)
        return cls(starts, shares=(0.9, 1.1), near_steps=800, courses=40, ratios=13)

    def compute(self, watch: Watch) -> xr.Dataset:
        base = self.setting
        theory = staircase_sharpness(base.model, base.task)
        limit = 2 / float(theory.sharpness.max())
        shares = sorted({*self.shares, _BELOW, _ABOVE})
        ends, courses = [], {}
        for share in watch.each(shares):
            run = watch.train(
                f"descent-{share:g}", stability.descend(base, share * limit, self.courses)
            )
            ends.append(stability.end_numbers(run))
            if share in (_BELOW, _ABOVE):
                courses[share] = run
        data = xr.concat(ends, xr.DataArray(shares, dims="rate_share", name="rate_share"))
        for name, share in (("below", _BELOW), ("above", _ABOVE)):
            run = courses[share]
            curve = stability.sharpness_along(run, 0)
            data[f"{name}_sharpness"] = (f"{name}_time", curve)
            data[f"{name}_loss"] = (f"{name}_time", run.loss[0])
            data = data.assign_coords({f"{name}_time": run.time})
        data = data.merge(stability.plateau_sharpness(courses[_BELOW], theory))
        sides = (1 - self.near, 1 + self.near)
        data = data.merge(stability.beside_fixed_points(watch, base, sides, self.near_steps))
        data = data.merge(
            stability.rotation_bounds(_LENGTHS, np.geomspace(4.0, 4 * 2**6, self.ratios))
        )
        narrow = stability.rotation_bounds((1000,), np.array([50.0]))["rotation_bound"]
        least = float(plateau_losses(base.task, model=base.model)[-1])
        return data.assign(narrow_bound=narrow.item(), stable_rate=limit, least_loss=least)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["plateau_sharpness"].to_numpy())
        expected = np.broadcast_to(data["theory_sharpness"].to_numpy(), seen.shape)
        share = data["rate_share"].to_numpy()
        sharp = data["theory_sharpness"].max().item()
        ends = data["end_sharpness"].to_numpy() / sharp
        below, above = share < 1, share > 1
        first, excess = data["excess"][..., 0], data["excess"]
        late = (excess[..., -excess.sizes["step"] // 4 :].max("step") / first).to_numpy()
        slopes = np.broadcast_to(
            2 * np.log(np.abs(2 * data["share"] - 1)), data["growth"].shape[::-1]
        )
        certain = (data["length"] <= _LENGTHS[0]) | (data["ratio"] <= _LAST_RATIO)
        bound = data["rotation_bound"]
        return (
            relatively_within(
                "below the stable rate, the sharpness on each plateau of gradient descent is T21's",
                data["plateau_sharpness"].to_numpy()[seen],
                expected[seen],
                2e-4,
            ),
            relatively_within(
                "below the stable rate, descent ends at the sharpness of the minimal-norm weights",
                ends[below],
                np.ones(ends[below].shape),
                2e-4,
            ),
            relatively_within(
                "above the stable rate, descent ends at the edge of stability, where the "
                "sharpness is 2/η",
                ends[above],
                np.broadcast_to(1 / share[above][:, None], ends[above].shape),
                0.003,
            ),
            within(
                "below and above it, descent ends at the least loss",
                data["end_loss"],
                np.full(ends.shape, data["least_loss"].item()),
                1e-8,
            ),
            at_most(
                "above the stable rate no head holds the first eigenvector alone: the largest "
                "share of it in one head",
                data["largest_share"].to_numpy()[above],
                0.95,
            ),
            relatively_within(
                "near a fixed point, the excess loss grows by a factor (1 − 2η/η_stable)² a "
                "step: its logarithm",
                data["growth"].transpose("plateau", "share"),
                slopes,
                1e-3,
            ),
            at_most(
                "just below the stable rate of a fixed point, descent settles there: excess "
                "loss left, over its first value",
                late[0],
                2e-5,
            ),
            at_least(
                "just above that rate, descent leaves the fixed point: excess loss, over its first "
                "value",
                late[1],
                3e5,
            ),
            within(
                "for N ≤ 250 or λ_1/λ_m ≤ 25.9 the first head sets the sharpness: sharpness "
                "over that of the first head",
                bound.where(certain, 1.0),
                np.ones(bound.shape),
                1e-12,
            ),
            within(
                "beyond these bounds, rotations of a head set it: the same ratio at λ = (1, "
                ".02), N = 1000, predicted 6.940/5.996",
                data["narrow_bound"].item(),
                6.940 / 5.996,
                2e-4,
            ),
            within(
                "Lanczos iteration on the Hessian finds the closed form of this ratio",
                data["lanczos_bound"],
                bound.sel(ratio=data["marked_ratio"].to_numpy()),
                1e-12,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("the Hessian of half the loss", 0.5, "plateau_sharpness", "end_sharpness"),
            scaled("a sharpness that is a thousandth off", 1.001, "theory_sharpness"),
            rolled("ends of another rate", "rate_share", "end_sharpness"),
            scaled("ends at a loss a hundredth higher", 1.01, "end_loss"),
            rolled("heads of another rate", "rate_share", "largest_share"),
            rolled("rates on the other side of the limit", "share", "excess"),
            scaled("growth of the weights in place of the loss", 0.5, "growth"),
            rolled("bounds of another context length", "length", "rotation_bound"),
            scaled("a bound that is a thousandth off", 1.001, "narrow_bound"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_courses, _draw_ends, _draw_beside, _draw_rotations)
        return panels.grid(draws, data, 2, width=3.8, height=2.9).build()


def _draw_courses(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The sharpness along two descents, its value on the plateaus, and both limits."""
    plateau = float(data["theory_sharpness"].max())
    axes.axhline(plateau, color=panels.THEORY_COLOUR, label="T21", **panels.THEORY)
    for index, (name, share) in enumerate((("above", _ABOVE), ("below", _BELOW))):
        tint = panels.colour(index)
        label = rf"$\eta={share:g}\,\eta^*$"
        style = "." if name == "above" else "-"
        along = data[f"{name}_time"], data[f"{name}_sharpness"]
        axes.plot(*along, style, color=tint, markersize=3, label=label)
        axes.axhline(plateau / share, color=tint, linestyle=":", linewidth=1.2)
        place = (0.02, plateau / share + (0.03 if name == "below" else -0.1) * plateau)
        axes.text(*place, r"$2/\eta$", color=tint, fontsize=8, x_in="panel")
    for time in data["drop_time"][0].to_numpy():
        axes.axvline(time, color="0.8", linewidth=0.8, zorder=0)
    begin, end = float(np.nanmin(data["drop_time"][0])) / 3, float(data["below_time"][-1])
    axes.set(xscale="log", xlim=(begin, end), ylim=(0, 1.9 * plateau))
    axes.set(xlabel=panels.TIME_LABEL, ylabel="sharpness")
    axes.legend()


def _draw_ends(axes: PanelBuilder, data: xr.Dataset) -> None:
    """Where descents end, over their learning rate, and what the largest head holds of e1."""
    share = data["rate_share"].to_numpy()
    sharp = float(data["theory_sharpness"].max())
    fine = np.linspace(share.min() - 0.03, share.max() + 0.03, 200)
    edge = np.minimum(1.0, 1 / fine)
    axes.plot(fine, edge, color=panels.THEORY_COLOUR, label=r"T21, $2/\eta$", **panels.THEORY)
    for index, (values, mark, label) in enumerate(
        (
            (data["end_sharpness"].to_numpy() / sharp, "o", "sharpness over T21's"),
            (data["largest_share"].to_numpy(), "s", "largest share of $e_1$"),
        )
    ):
        look = {**panels.CIRCLES, "marker": mark, "color": panels.colour(index), "markersize": 4.5}
        for seed, column in enumerate(values.T):
            axes.plot(share, column, label=None if seed else label, **look)
    axes.set(xlabel=r"learning rate  $\eta/\eta^*$", ylabel="at the end of descent")
    axes.set(ylim=(0, 1.15))
    axes.legend(2)


def _draw_beside(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The excess loss from beside each fixed point, and the slopes of T21."""
    step = np.arange(data.sizes["step"])
    for row, share in enumerate(data["share"].to_numpy()):
        for place in range(data.sizes["plateau"]):
            curve = data["excess"][row, place]
            label = rf"$M_{place + 1}$" if row == 0 else None
            axes.plot(step, np.maximum(curve, 1e-17), color=panels.colour(place), label=label)
        slope = 2 * np.log(abs(2 * share - 1))
        middle = float(np.exp(np.log(data["excess"][row, :, 0]).mean()))
        line = middle * np.exp(slope * step)
        keep = (line > 1e-15) & (line < 1e-3)
        label = "T21" if row == 0 else None
        axes.plot(step[keep], line[keep], color="black", zorder=3, label=label, **panels.THEORY)
        name, height = rf"$\eta={share:g}\,\eta^*$", 0.06 if row == 0 else 0.9
        axes.text(0.97, height, name, x_in="panel", y_in="panel", ha="right", fontsize=8)
    axes.set(yscale="log", ylim=(1e-17, 1), xlabel="step", xlim=(0, step[-1]))
    axes.set(ylabel=r"$|L - L(M_m)|$")
    axes.legend(5)


def _draw_rotations(axes: PanelBuilder, data: xr.Dataset) -> None:
    """How much sharper rotations are than the first head, over the spread of two eigenvalues."""
    for index, length in enumerate(data["length"].to_numpy()):
        tint = panels.colour(index)
        label = f"$N={int(length):,}$".replace(",", "\\,")
        look = {"color": tint, "label": label, **panels.THEORY}
        axes.plot(data["ratio"], data["rotation_bound"][index], **look)
        axes.plot(data["marked_ratio"], data["lanczos_bound"][index], color=tint, **panels.CIRCLES)
    axes.axvline(_LAST_RATIO, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xscale="log", xlabel=r"$\lambda_1/\lambda_2$")
    axes.set(ylabel="sharpness of $M_2$ over $6c_1\\xi_1^{1/3}$")
    axes.legend()
