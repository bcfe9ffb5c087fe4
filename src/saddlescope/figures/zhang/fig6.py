"""Figure 6 of Zhang et al.: the weights of merged attention on its plateau and at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.arrays import unvectorise
from saddlescope.charts import PanelBuilder, Sheet, SheetBuilder
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, replaced, rolled, scaled
from saddlescope.figures.kit.panels import colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import merged_run
from saddlescope.figures.zhang.staircase import FIXED
from saddlescope.setting import Setting
from saddlescope.task import AbstractData, InContextRegression
from saddlescope.theory import early_alignment, minimum, modes
from saddlescope.trajectory import Trajectory


@dataclass(frozen=True)
class Figure6(AbstractFigure):
    """All heads parallel, along E[y z] on the plateau and along W_* at the end (T10)."""

    setting: Setting = merged_run.MERGED
    prompts: int = 50_000

    id = "fig6"
    title = "Merged heads align silently, then turn together"
    source = "Zhang et al., Figure 6 (arXiv v1): the weights of Figure 1"
    text = (
        "The run of Figure 1. (a) The loss; dotted lines are the two times shown below, half the "
        "predicted drop time and the end. (b) How parallel the key–query matrices are. While the "
        "loss is still on its plateau, every head turns to the direction E[y z], that is Λ², as "
        "the flow near zero predicts from the initial weights (dashed); after the drop all turn "
        "together to the direction of the least-squares solution E[y z] E[z zᵀ]⁻¹, that is (Λ + "
        "(Λ + tr Λ)/N)⁻¹ (dashed: T10). (c) The matrix of every head, normalised and with the "
        "sign of its value, on the plateau and at the end, next to the two predicted directions. "
        "Silent alignment needs a small start: the misalignment falls as the initial scale to the "
        "power of the elapsed share of the plateau, so at scale .1 heads are far from parallel "
        "half-way."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "initial scale 1e-5, so that heads are parallel before the drop",
    )
    seconds = 4.0
    varied = (*FIXED, "at", "spacing")

    @classmethod
    def quick(cls) -> Figure6:
        return cls(merged_run.QUICK_MERGED)

    def compute(self, watch: Watch) -> xr.Dataset:
        task, seeds = self.setting.task, self.setting.seeds
        run = watch.train("attention", merged_run.until_converged(self.setting))
        numbers = merged_run.merged_numbers(run)
        data = numbers[["loss", "level_loss", "predicted_drop_time"]]
        targets = np.stack([np.diag(modes(task).drive), minimum(task).effective_map])
        matrices, square = run.dataset["U"].to_numpy(), ("dim", "query_dim")
        cosines = [_cosine(matrices, target, 2) for target in targets]
        courses = numbers["predicted_diagonal"].to_numpy()
        predicted = [_cosine(courses, np.diag(target), 1) for target in targets]
        early = [early_alignment(task, run.weights(seed, 0), run.time) for seed in seeds]
        middles = np.searchsorted(data["time"], data["predicted_drop_time"][:, 0] / 2)
        shown = [[int(middle), data.sizes["time"] - 1] for middle in middles]
        shapes = [_shapes(run, *of_seed) for of_seed in zip(seeds, shown, strict=True)]
        return data.assign(
            target=(("moment", *square), targets),
            sampled_target=(("moment", *square), self._sampled_targets(task)),
            parallel=(("seed", "time"), _least_parallel(matrices)),
            alignment=(("moment", "seed", "time", "head"), np.stack(cosines)),
            predicted_alignment=(("moment", "seed", "time"), np.stack(predicted)),
            early_alignment=(("seed", "time", "head"), np.stack(early)),
            shown=(("seed", "moment"), np.array(shown, dtype=np.int32)),
            head_matrix=(("seed", "moment", "head", *square), np.stack(shapes)),
            final_map=(("seed", *square), run.dataset["effective_map"].to_numpy()[:, -1]),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        middles, start, end = data["shown"].to_numpy()[:, 0], *data["level_loss"].to_numpy()
        seeds = np.arange(data.sizes["seed"])
        plateau, final = data["alignment"].to_numpy()
        names = ("sampled_target", "target")
        sampled, exact = (data[name].to_numpy().reshape(2, -1) for name in names)
        lengths = np.linalg.norm(sampled, axis=1) * np.linalg.norm(exact, axis=1)
        return (
            at_most(
                "at half the predicted drop time the loss is still on its plateau: share of the "
                "fall done",
                (start - data["loss"].to_numpy()[seeds, middles]) / (start - end),
                2e-5,
            ),
            at_least(
                "at half the predicted drop time the heads are parallel: least |cos| of any two "
                "heads' key–query matrices",
                data["parallel"].to_numpy()[seeds, middles],
                0.99,
            ).stated_in("Z Figure 6"),
            within(
                "at half the predicted drop time, |cos| of each head's key–query matrix with Λ² "
                "is that of the flow near zero (T10)",
                plateau[seeds, middles],
                data["early_alignment"].to_numpy()[seeds, middles],
                1e-7,
            ),
            at_least(
                "at the end the heads are parallel: least |cos| of any two heads' key–query "
                "matrices",
                data["parallel"][:, -1],
                1 - 5e-8,
            ).stated_in("Z Figure 6"),
            at_least(
                "at the end each head's key–query matrix is parallel to (Λ + (Λ + tr Λ)/N)⁻¹: "
                "|cos|",
                final[:, -1],
                1 - 5e-8,
            ).stated_in("Z Figure 6"),
            within(
                "at the end the effective map of all heads is (Λ + (Λ + tr Λ)/N)⁻¹ (T3): "
                "largest difference of an entry",
                data["final_map"],
                np.broadcast_to(data["target"].to_numpy()[1], data["final_map"].shape),
                1e-10,
            ).stated_in("Z 16"),
            at_least(
                "E[y z] and E[y z]E[z zᵀ]⁻¹, estimated from prompts, are parallel to Λ² and "
                "(Λ + (Λ + tr Λ)/N)⁻¹ (T6): cos",
                (sampled * exact).sum(1) / lengths,
                1 - 5e-4,
            ).stated_in("Z Figure 6"),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        task, length = self.setting.task, self.setting.task.fixed_length or 2
        shorter = self.setting.replace(context_length=length - 1).task
        drive, optimum = np.diag(modes(task).drive), minimum(task).effective_map
        root = np.diag(np.sqrt(modes(task).drive))
        return (
            replaced(
                f"the minimum of N = {length - 1}",
                {"target": [drive, minimum(shorter).effective_map]},
            ),
            replaced("Λ in place of Λ²", {"target": [root, optimum]}),
            rolled("the plateau's direction at the end", "moment", "alignment"),
            rolled("the flow near zero of other heads", "head", "early_alignment"),
            rolled("the flow near zero of other seeds", "seed", "early_alignment"),
            rolled("the end's weights on the plateau", "moment", "shown"),
            rolled("prompts whose queries are permuted", "query_dim", "sampled_target"),
            scaled("a map without one of its heads", 7 / 8, "final_map"),
            scaled("heads that are not parallel", 0.98, "parallel"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        one = data.isel(seed=0)
        drawing, axes = panels.sheet(
            3, one.sizes["head"] + 1, width=1.05, height=1.6, height_ratios=(1.6, 1, 1)
        )
        half = (one.sizes["head"] + 1) // 2
        axes[0, half].remove()
        loss_axes, cosine_axes = drawing.join(axes[0, :half]), drawing.join(axes[0, half + 1 :])
        loss_axes.plot(one["time"], one["loss"], color=colour(0))
        loss_axes.set(ylabel=panels.LOSS_LABEL, ylim=(0, None))
        _draw_cosines(cosine_axes, one)
        moments = one["time"].to_numpy()[one["shown"].to_numpy()]
        first = float(one["predicted_drop_time"][0]) / 10
        panels.letter((loss_axes, cosine_axes))
        for panel in (loss_axes, cosine_axes):
            panel.set(xscale="log", xlim=(first, float(one["time"][-1])), xlabel=panels.TIME_LABEL)
            for moment in moments.tolist():
                panel.axvline(moment, color=panels.THEORY_COLOUR, linestyle=":", linewidth=1.0)
        _draw_matrices(drawing, axes[1:], one, moments)
        return drawing.build()

    def _sampled_targets(self, task: AbstractData) -> FloatArray:
        """E[y z] and E[y z]E[z zᵀ]⁻¹ of sampled prompts, as matrices."""
        if not isinstance(task, InContextRegression):
            raise InvalidInput("task", task, "must be an InContextRegression")
        sampled = task.statistics(self.prompts)
        solved = np.linalg.solve(sampled.second_moment, sampled.cross_moment)
        return unvectorise(np.stack([sampled.cross_moment, solved]))


def _cosine(arrays: FloatArray, target: FloatArray, axes: int) -> FloatArray:
    """|cos| of arrays with one of their own shape, along the last axes."""
    along = np.tensordot(arrays, target, axes=axes)
    lengths = np.sqrt((arrays**2).sum(axis=tuple(range(-axes, 0))))
    return np.abs(along) / (lengths * np.linalg.norm(target))


def _least_parallel(matrices: FloatArray) -> FloatArray:
    """The least |cos| of any two heads' matrices, [S, T]."""
    flat = matrices.reshape(*matrices.shape[:3], -1)
    units = flat / np.linalg.norm(flat, axis=-1, keepdims=True)
    return np.abs(units @ units.swapaxes(-1, -2)).min(axis=(-2, -1))


def _shapes(run: Trajectory, seed: int, records: list[int]) -> FloatArray:
    """Each head's matrix over its length, with the sign of its value, [moment, H, D, D]."""
    each = [run.weights(seed, record) for record in records]
    signed = np.stack([np.sign(one["v"])[:, None, None] * one["U"] for one in each])
    return signed / np.linalg.norm(signed, axis=(2, 3), keepdims=True)


def _draw_cosines(axes: PanelBuilder, one: xr.Dataset) -> None:
    """For one seed: the measured and the predicted angles over time."""
    time = one["time"].to_numpy()
    before = time <= float(one["predicted_drop_time"][0])
    axes.plot(time, one["parallel"], color=colour(2), label="two heads, least")
    for moment, name in enumerate((r"$\Lambda^2$", r"$W^*$")):
        least = one["alignment"][moment].min("head")
        axes.plot(time, least, color=colour(moment), label=f"a head and {name}, least")
        after = np.where(before, np.nan, one["predicted_alignment"][moment])
        axes.plot(time, after, color="black", **panels.THEORY)
    early = np.where(before, one["early_alignment"].min("head"), np.nan)
    axes.plot(time, early, color="black", label="theory (T10)", **panels.THEORY)
    axes.set(ylabel="|cos|", ylim=(0, 1.03))
    axes.legend(2)


def _draw_matrices(
    drawing: SheetBuilder, rows: AnyArray, one: xr.Dataset, moments: FloatArray
) -> None:
    targets = one["target"].to_numpy()
    targets = targets / np.linalg.norm(targets, axis=(1, 2), keepdims=True)
    theory = (r"$\Lambda^2$", r"$W^*$")
    for moment, row in enumerate(rows):
        for head, axes in enumerate(row):
            is_head = head < len(row) - 1
            drawn = one["head_matrix"][moment, head] if is_head else targets[moment]
            axes.imshow(drawn, cmap="RdBu_r", vmin=-1, vmax=1)
            axes.xaxis.tick_at([])
            axes.yaxis.tick_at([])
            axes.box = "closed"
            if is_head:
                cosine = one["alignment"][moment, int(one["shown"][moment]), head]
                axes.set(xlabel=f"cos {float(cosine):.4f}")
                axes.label_sizes["x"] = 7
            if moment == 0 or not is_head:
                axes.set_title(f"head {head + 1}" if is_head else theory[moment], fontsize=8)
        row[0].set(ylabel=f"(c)  $t={moments[moment]:.0f}$")
    drawing.colorbar(rows.flat, "entry, at length 1", beside=rows[:, -1], shrink=0.8)
