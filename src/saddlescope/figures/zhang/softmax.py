"""Figure 5 of the published Zhang et al.: Figures 1 and 3 with softmax attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from saddlescope.arrays import nan_padded
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientDescent
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled, shifted, swapped
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.merged_run import with_merged_heads
from saddlescope.figures.zhang.staircase import STAIRCASE
from saddlescope.measure import first_crossing, stages
from saddlescope.setting import Setting
from saddlescope.task import Prompts
from saddlescope.theory import modes
from saddlescope.theory.parametrisation import population_law
from saddlescope.trajectory import Trajectory

_SEPARATE = STAIRCASE.replace(
    method=GradientDescent(0.4, steps=8000), init_scale=0.05, points=1000, seeds=4
)
_KINDS = ("merged", "separate")
# The relative variance of a squared label and of the mean over mirrored prompts: 2 × 3.8.
_POWER_VARIANCE = 7.6
# On fewer prompts than these the two kinds of attention fit different parts of their noise, and
# their plateaus lie a twelfth of the fall apart at worst; on as many, a thirtieth.
_MANY_PROMPTS, _FEW = 800, 0.1


@dataclass(frozen=True)
class Softmax(AbstractFigure):
    """One drop of merged and several of separate softmax attention, counted on the loss itself."""

    setting: Setting = _SEPARATE
    merged_heads: int = 8
    merged_scale: float = 0.01
    merged_steps: int = 800
    prompts: int = 800

    id = "softmax"
    title = "Softmax attention: one drop merged, several separate"
    source = "Zhang et al., Figure 5 (ICML 2025): Figures 1 and 3 with softmax"
    text = (
        "Softmax attention trained by gradient descent on prompts (solid), next to linear "
        "attention from the same weights on the same prompts (dotted). (a) Merged: one drop. (b) "
        "Separate: a staircase, with plateaus a little above those of linear attention (dashed). "
        "(c) What the heads of one seed have learned along each eigenvector, to first order of "
        "the softmax in its scores, W = Σ v_i U_i: one eigenvector per drop, the strongest first. "
        "No theory gives these times: the first drop comes at about the time of linear "
        "attention's, later ones sooner. Each prompt occurs twice, the second time with query and "
        "target reversed: in a plain sample the mean label, which softmax returns while its "
        "weights are small, correlates with the target by chance, and this drives all values at "
        "once, long before the first drop is due. The blocks that are zero in expectation are "
        "left out, as in Figures 1 and 3; trained on a sample they fit its noise and blur the "
        "later plateaus."
    )
    departures = (
        "each prompt is there twice, with query and target reversed the second time",
        "the blocks that are zero in expectation are left out",
        "800 prompts, learning rate .4 and initial scales .05 and .01",
    )
    seconds = 75.0
    varied = ("activation", "weights")

    @classmethod
    def quick(cls) -> Softmax:
        setting = _SEPARATE.replace(seeds=1, steps=3500, points=700)
        return cls(setting, prompts=400, merged_steps=400)

    def compute(self, watch: Watch) -> xr.Dataset:
        task = population_law(self.setting.task)
        separate = self.setting.replace(task=_mirrored(task.sample(self.prompts // 2, seed=1)))
        merged = with_merged_heads(separate, self.merged_heads).replace(
            init_scale=self.merged_scale, steps=self.merged_steps
        )
        parts = []
        for name, setting in watch.each(zip(_KINDS, (merged, separate), strict=True)):
            softmax, linear = (
                watch.train(f"{name}-{activation}", setting.replace(activation=activation))
                for activation in watch.each(("softmax", "linear"))
            )
            shares = _first_order(softmax, modes(task).basis) / modes(task).amplitude
            parts.append(_numbers(name, softmax, linear, shares))
        return xr.merge(parts).assign(label_power=float(modes(task).query_eigenvalues.sum()))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seeds, dimension = data.sizes["seed"], data.sizes["direction"]
        distances = _distance(data, "separate")
        first = np.stack([data[f"{name}_loss"].to_numpy()[:, 0] for name in _KINDS])
        drops, linear = (
            np.stack([_first_drops(data, name, kind) for name in _KINDS])
            for kind in ("loss", "linear_loss")
        )
        return (
            equal(
                "merged: the loss drops once",
                data["merged_drops"],
                np.ones(seeds),
                "seeds drop once",
            ).stated_in("Z Figure 5 (ICML 2025)"),
            equal(
                "separate: the loss drops several times, once for each eigenvector",
                data["separate_drops"],
                np.full(seeds, dimension),
                "seeds drop so often",
            ).stated_in("Z Figure 5 (ICML 2025)"),
            # Three standard errors of the labels' power over this many prompts.
            relatively_within(
                "every run begins at the power of the labels, tr Λ",
                first,
                float(data["label_power"]),
                3 * np.sqrt(_POWER_VARIANCE / self.prompts),
            ),
            within(
                "the first drop comes at about the time of linear attention's: ratio of the two",
                drops / linear,
                1.0,
                0.3,
            ),
            at_most(
                "merged: the loss falls to about the final loss of linear attention: difference "
                "as a share of the fall",
                _distance(data, "merged")[:, 1],
                0.03,
            ),
            at_most(
                "separate: the plateaus lie near those of linear attention: difference as a "
                "share of the fall",
                distances[np.isfinite(distances)],
                _FEW if self.prompts < _MANY_PROMPTS else 0.05,
            ),
            equal(
                "separate: eigenvectors are learned in falling order of eigenvalue",
                _learning_order(data["separate_learned"].to_numpy()),
                np.tile(np.arange(1, dimension + 1), (seeds, 1)),
                "drops in order",
            ).stated_in("Z Figure 5 (ICML 2025)"),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        losses = [f"{name}_{kind}" for name in _KINDS for kind in ("loss", "linear_loss")]
        levels = [f"{name}_{kind}level" for name in _KINDS for kind in ("", "linear_")]
        return (
            scaled("a loss with a factor one half", 0.5, *losses, *levels),
            swapped("merged and separate exchanged", "merged_drops", "separate_drops"),
            shifted("a fifth drop", 1.0, "separate_drops"),
            rolled("plateaus counted from the drop before", "level", "separate_level"),
            scaled("plateaus of a context half as long", 1.15, "separate_level"),
            scaled("a merged end of another context", 1.3, "merged_level"),
            rolled("eigenvectors in another order", "direction", "separate_learned"),
            rolled("linear attention from another start", "level", "separate_linear_level"),
            changed("learned from the last to the first", "separate_learned", by=_backwards),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        merged, separate = (partial(_draw_loss, name=name) for name in ("merged", "separate"))
        draws = (merged, separate, _draw_learned)
        drawing = panels.grid(draws, data, 3, width=3.3, height=2.8)
        first = float(np.nanmin(data["separate_first_drop"])) / 4
        for panel in drawing.panels[1:]:
            panel.set(xlim=(first, float(data["separate_time"][-1])))
        drawing.panels[0].set(xlim=(float(np.nanmin(data["merged_first_drop"])) / 4, None))
        for panel in drawing.panels:
            panel.set(xscale="log", xlabel=panels.TIME_LABEL)
        return drawing.build()


def _mirrored(prompts: Prompts) -> Prompts:
    """Every prompt twice, the second time with its query and target reversed."""
    x, y = (np.concatenate([array, array]) for array in (prompts.x, prompts.y))
    for array in (x, y):
        array[prompts.count :, -1] *= -1
    return Prompts(x, y)


def _first_order(run: Trajectory, basis: FloatArray) -> FloatArray:
    r"""$e_d^\top\sum_i v_i U_i\,e_d$ of every seed and time, [S, T, D]."""
    weights = run.dataset
    if "U" in weights:
        matrices = weights["U"].to_numpy()
    else:
        keys, queries = weights["k"].to_numpy(), weights["q"].to_numpy()
        matrices = np.einsum("sthra,sthrb->sthab", keys, queries)
    maps = np.einsum("sth,sthab->stab", weights["v"].to_numpy(), matrices)
    return np.einsum("ad,stab,bd->std", basis, maps, basis)


def _numbers(name: str, softmax: Trajectory, linear: Trajectory, shares: FloatArray) -> xr.Dataset:
    """Losses, their plateaus and what was learned, of one parametrisation."""
    levels, reference = (_plateaus(run, shares.shape[-1]) for run in (softmax, linear))
    # The linear seed that has come furthest shows the most levels.
    furthest = int(np.isfinite(reference).sum(axis=1).argmax())
    time, time_axis = softmax.time, f"{name}_time"
    first = [stages(row, time).drops[0].time for row in softmax.loss]
    return xr.Dataset(
        {
            f"{name}_loss": (("seed", time_axis), softmax.loss),
            f"{name}_linear_loss": (("seed", time_axis), linear.loss),
            f"{name}_learned": (("seed", time_axis, "direction"), shares),
            f"{name}_level": (("seed", "level"), levels),
            f"{name}_linear_level": ("level", reference[furthest]),
            f"{name}_drops": ("seed", np.isfinite(levels).sum(axis=1) - 1.0),
            f"{name}_first_drop": ("seed", np.array(first)),
        },
        coords={time_axis: time},
    )


def _plateaus(run: Trajectory, count: int) -> FloatArray:
    """The levels of each seed's plateaus, NaN beyond the last, [S, count + 1] or more."""
    rows = [[plateau.level for plateau in one.plateaus] for one in run.stages()]
    return nan_padded(rows, max(count + 1, *map(len, rows)))


def _distance(data: xr.Dataset, name: str) -> FloatArray:
    """How far the plateaus are from linear attention's on the same prompts, in whole falls."""
    known = data[f"{name}_linear_level"].to_numpy()
    fall = np.nanmax(known) - np.nanmin(known)
    return np.abs(data[f"{name}_level"].to_numpy() - known) / fall


def _learning_order(shares: FloatArray) -> FloatArray:
    """The directions in the order in which half of their last share is learned, from 1, [S, D]."""
    half = first_crossing(np.moveaxis(shares, 1, -1), shares[:, -1] / 2, rising=True)
    return half.argsort(axis=1, kind="stable").astype(np.float64) + 1


def _first_drops(data: xr.Dataset, name: str, kind: str) -> FloatArray:
    """When the losses of a kind are midway between linear attention's first two plateaus."""
    levels = data[f"{name}_linear_level"].to_numpy()
    loss = data[f"{name}_{kind}"].to_numpy()
    middle = np.full(len(loss), (levels[0] + levels[1]) / 2)
    return first_crossing(loss, middle, data[f"{name}_time"].to_numpy())


def _backwards(shares: xr.DataArray) -> xr.DataArray:
    return shares.isel(direction=slice(None, None, -1))


def _draw_loss(axes: PanelBuilder, data: xr.Dataset, name: str) -> None:
    time, dotted = data[f"{name}_time"], {"linestyle": ":", "linewidth": 1.0}
    levels = data[f"{name}_linear_level"].to_numpy()
    panels.levels(axes, levels[np.isfinite(levels)], "plateaus of linear attention")
    panels.seed_curves(axes, time, data[f"{name}_linear_loss"], "linear, same start", **dotted)
    panels.seed_curves(axes, time, data[f"{name}_loss"], "softmax", linewidth=1.8)
    axes.set(ylabel=f"{name}: {panels.LOSS_LABEL}", ylim=(0, None))
    axes.legend(2)


def _draw_learned(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The share of each eigenvector in the seed that is first to learn one."""
    fastest = int(np.argmin(data["separate_first_drop"].to_numpy()))
    time = data["separate_time"]
    for direction, share in enumerate(data["separate_learned"][fastest].T):
        axes.plot(time, share, color=panels.colour(direction), label=f"$e_{direction + 1}$")
    axes.axhline(1, color="black", label="linear optimum", zorder=0, **panels.THEORY)
    axes.set(ylabel=r"learned share  $e_d^\top W e_d/\xi_d$")
    axes.legend(3)
