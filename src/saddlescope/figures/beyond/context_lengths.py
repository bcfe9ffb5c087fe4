"""Beyond the papers: contexts of random length, and what the length decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import (
    FIXED,
    STAIRCASE,
    level_claim,
    staircase_numbers,
    timing_claim,
)
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.tables import counted
from saddlescope.task import ContextLengths, InContextRegression, Prompts, Statistics
from saddlescope.theory import plateau_losses

_FLOW = STAIRCASE.replace(
    context_length=16, init_scale=0.02, seeds=2, until=20_000.0, points=800, spacing="log"
)
# The relative error of a moment of fourth order in the inputs, over P prompts, is about √(10/P).
_MOMENT_VARIANCE = 10.0


@dataclass(frozen=True)
class ContextLengthsFigure(AbstractFigure):
    """T2 and T7: N acts through E[1/N]; it decides how far the loss falls, but not when."""

    setting: Setting = _FLOW
    lengths: tuple[int, ...] = (1, 4, 16, 64, 512)
    shorter: tuple[int, ...] = (12, 10, 9)
    longer: tuple[int, ...] = (24, 40, 72)
    prompts: int = 50_000

    varied = FIXED

    id = "context-lengths"
    title = "Contexts of random length train like those of their harmonic mean"
    source = "Beyond the papers (T2, T7)"
    text = (
        "Separate attention of rank one. (a) Half of the prompts are short and half are long, "
        "each normalised by its own length; the three pairs have E[1/N] = 1/16, but means 18, 25 "
        "and 40.5. Trained on 50 000 such prompts, they all follow the staircase of N = 16 (wide "
        "grey and dashed); none ends at the last level of its mean length (short strokes at the "
        "right). In the population the paths are the same to rounding. (b) The levels over N: "
        "curves by T7, points measured; strokes at the right: N → ∞. (c) The drop times over N: "
        "points measured, dashed predicted from the initial weights (T13). Escape from a plateau "
        "is driven by Λ² alone, so the context length decides how deep the loss falls, and hardly "
        "when."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> ContextLengthsFigure:
        return cls(_FLOW.replace(seeds=(1,), points=500), lengths=(1, 16), prompts=30_000)

    def compute(self, watch: Watch) -> xr.Dataset:
        pairs = [ContextLengths(pair) for pair in zip(self.shorter, self.longer, strict=True)]
        plan = {f"fixed-{length}": self._at(length) for length in self.lengths}
        plan["reference"] = self.setting
        for index, pair in enumerate(pairs):
            plan[f"random-{index}"] = law = self._at(pair)
            drawn = of_kind(InContextRegression, law.task).statistics(self.prompts, seed=index)
            plan[f"sampled-{index}"] = law.replace(task=drawn)
        plan["tokens"] = self._by_tokens(pairs[-1], seed=len(pairs) - 1)
        runs = {name: watch.train(name, setting) for name, setting in watch.each(plan.items())}
        data = xr.concat(
            [staircase_numbers(runs[f"fixed-{length}"]) for length in self.lengths],
            xr.DataArray(list(self.lengths), dims="length"),
        ).drop_vars("loss")
        random, sampled = (
            np.array([runs[f"{kind}-{index}"].loss for index in range(len(pairs))])
            for kind in ("random", "sampled")
        )
        mean = (np.array(self.shorter) + np.array(self.longer)) / 2
        grid = np.unique(np.geomspace(1, 1000, 120).round().astype(int))
        curve = np.array([plateau_losses(self._at(int(length)).task) for length in grid])
        return data.assign(
            reference_loss=(("seed", "time"), runs["reference"].loss),
            reference_level=("level", plateau_losses(self.setting.task)),
            random_loss=(("pair", "seed", "time"), random),
            sampled_loss=(("pair", "seed", "time"), sampled),
            effective_length=("pair", 1 / np.array([pair.mean_inverse for pair in pairs])),
            mean_length=("pair", mean),
            mean_length_level=("pair", [self._last_level(length) for length in mean]),
            level_curve=(("any_length", "level"), curve),
            long_level=("level", plateau_losses(self._at(10**9).task)),
            token_loss=(("seed", "time"), runs["tokens"].loss),
            token_level=_token_level(of_kind(InContextRegression, self.setting.task), pairs[-1]),
        ).assign_coords(any_length=grid)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["drop_time"].to_numpy())
        time = data["time"].to_numpy()
        levels_of_drop = data["reference_level"].to_numpy()[:2]
        first, sampled = (
            drop_times(data[name].to_numpy(), levels_of_drop, time)[..., 0]
            for name in ("reference_loss", "sampled_loss")
        )
        # The seed that falls all the way ends at the last level.
        ends = data["sampled_loss"].isel(time=-1).min("seed")
        error = 3 * float(np.sqrt(_MOMENT_VARIANCE / self.prompts))
        times = data["drop_time"].to_numpy()
        everywhere = seen.all(axis=0)
        spread = times.max(axis=0)[everywhere] / times.min(axis=0)[everywhere] - 1
        return (
            at_most(
                "averaged over random context lengths, the loss is that of the fixed length N = "
                "1/E[1/N] (T2): difference",
                abs(data["random_loss"] - data["reference_loss"]).max(("seed", "time")),
                1e-9,
            ),
            relatively_within(
                "trained on prompts of random length, attention ends at the last level of that "
                "fixed length (T7)",
                ends,
                np.broadcast_to(data["reference_level"][-1], ends.shape),
                error,
            ),
            at_least(
                "it does not end at the last level of the mean length: final loss over that level",
                ends / data["mean_length_level"],
                1.05,
            ),
            relatively_within(
                "its first drop comes when that of training at the fixed length does",
                sampled,
                np.broadcast_to(first, sampled.shape),
                error,
            ),
            # On the same prompts, so that both have the same noise.
            relatively_within(
                "divided by N + 1 (the authors' option for varying lengths) attention ends "
                "lower than divided by N: final losses in the ratio E[g]²/E[g²(1 + (1 + tr "
                "Λ/λ)/N)], g = N/(N + 1)",
                data["token_loss"].isel(time=-1).min("seed") / ends[-1],
                float(data["token_level"] / data["reference_level"][-1]),
                0.01,
            ),
            level_claim("plateaus lie at T7's levels at every N, down to N = 1", data, seen, 8e-4),
            timing_claim(
                "drops come at the times predicted from the initial weights alone, at every N "
                "(T13)",
                data,
                0.008,
            ),
            at_most(
                "drop times hardly depend on N: relative spread of each drop's time over all N",
                spread,
                0.02,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("levels of another N", "length", "level_loss"),
            rolled("plateaus of another N", "length", "plateau_loss"),
            scaled("1/N in place of E[1/N]", 1.001, "random_loss"),
            scaled("a last level of the mean length", 0.9, "sampled_loss"),
            scaled("the mean length's level a tenth too high", 1.1, "mean_length_level"),
            scaled("levels of a length one pair shorter", 1.06, "reference_level"),
            scaled("drops late by two hundredths of their time", 1.02, "drop_time"),
            scaled("predictions of a start twice as large", 0.5, "predicted_drop_time"),
            scaled("prompts divided by N all the same", 1.05, "token_loss"),
            scaled("drops that come later the longer", self._later(), "drop_time"),
        )

    def _later(self) -> FloatArray:
        return (1 + 0.05 * np.arange(len(self.lengths)))[:, None, None]

    def draw(self, data: xr.Dataset) -> Sheet:
        runs = partial(_draw_runs, pairs=list(zip(self.shorter, self.longer, strict=True)))
        draws = (runs, _draw_levels, _draw_times)
        drawing = panels.grid(draws, data, 3, width=3.3, height=3.0)
        first = float(np.nanmin(data["drop_time"])) / 3
        drawing.panels[0].set(xlim=(first, self.setting.method.end))
        return drawing.build()

    def _at(self, length: object) -> Setting:
        return self.setting.replace(context_length=length)

    def _by_tokens(self, pair: ContextLengths, seed: int) -> Setting:
        """Trained on prompts of two lengths whose attention is divided by N + 1, query included."""
        law = self._at(pair)
        batches = of_kind(InContextRegression, law.task).sample_batches(self.prompts, seed)
        return law.replace(task=Statistics.from_batches(map(_divided_by_tokens, batches)))

    def _last_level(self, length: float) -> float:
        """The last level at a length that need not be whole, by linear mixing of 1/N (T2)."""
        low = int(length)
        share = (1 / length - 1 / (low + 1)) / (1 / low - 1 / (low + 1))
        mixed = ContextLengths([low, low + 1], [share, 1 - share])
        return float(plateau_losses(self._at(mixed).task)[-1])


def _divided_by_tokens(prompts: Prompts) -> Prompts:
    """Prompts whose mean over N pairs is what their sum over N + 1 tokens is."""
    share = prompts.lengths / (prompts.lengths + 1)
    y = np.array(prompts.y)
    y[:, :-1] *= np.asarray(share)[:, None]
    return Prompts(prompts.x, y, prompts.lengths)


def _token_level(task: InContextRegression, pair: ContextLengths) -> float:
    """The least loss where each prompt is divided by N + 1 (T7 with the factor N/(N + 1))."""
    lengths, weights = np.array(pair.lengths), np.array(pair.probabilities)
    values, factor = task.spectrum.eigenvalues, lengths / (lengths + 1)
    spread = 1 + (1 + values.sum() / values[:, None]) / lengths
    drops = values * (weights @ factor) ** 2 / (spread * factor**2 @ weights)
    return float(values.sum() - drops.sum())


def _draw_runs(axes: PanelBuilder, data: xr.Dataset, pairs: Sequence[tuple[int, int]]) -> None:
    one = data.isel(seed=0)
    fixed = f"fixed $N={1 / float((1 / one['effective_length']).mean()):.0f}$"
    axes.plot(one["time"], one["reference_loss"], color="0.75", linewidth=4, label=fixed)
    panels.levels(axes, one["reference_level"], "its levels (T7)")
    stroke = [0.75 * float(one["time"][-1]), float(one["time"][-1])]
    signs = ("-", (0, (5, 1)), (0, (1, 1)))
    for index, (short, long) in enumerate(pairs):
        label = f"$N={short}$ or ${long}$"
        row, sign = one["sampled_loss"][index], signs[index % 3]
        axes.plot(one["time"], row, color=panels.colour(index), linestyle=sign, label=label)
        elsewhere = float(one["mean_length_level"][index])
        axes.plot(stroke, [elsewhere] * 2, color=panels.colour(index), linewidth=2.5)
    lowest = float(one["mean_length_level"].min())
    axes.text(stroke[0], lowest, "last levels at the mean $N$  ", ha="right", fontsize=7.5)
    axes.set(xscale="log", xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL, ylim=(0, None))
    axes.legend(2)


def _draw_levels(axes: PanelBuilder, data: xr.Dataset) -> None:
    right = float(data["any_length"][-1])
    for level, tint in enumerate(panels.shades(data.sizes["level"])):
        curve, rest = data["level_curve"][:, level], float(data["long_level"][level])
        axes.plot(data["any_length"], curve, color=tint, **panels.THEORY)
        axes.plot([right, 1.6 * right], [rest, rest], color=tint, linewidth=2.5)
        look = {"color": tint, "marker": "o", "linestyle": "none", "markersize": 4.5}
        measured = data["plateau_loss"][:, :, level].T
        panels.seed_curves(axes, data["length"], measured, counted(level, "drop"), **look)
    axes.set(xscale="log", xlabel="context length  $N$", ylabel=panels.LOSS_LABEL, ylim=(0, None))
    axes.legend()


def _draw_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    tints = panels.shades(data.sizes["level"])[1:]
    for drop in range(data.sizes["drop"]):
        for seed, sign in zip(range(data.sizes["seed"]), "osD^v", strict=False):
            measured = data["drop_time"][:, seed, drop]
            predicted = data["predicted_drop_time"][:, seed, drop]
            label = f"drop {drop + 1}" if seed == 0 else None
            axes.plot(data["length"], predicted, color=tints[drop], **panels.THEORY)
            axes.plot(data["length"], measured, sign, color=tints[drop], markersize=4, label=label)
    axes.plot([], [], color=panels.THEORY_COLOUR, label="T13", **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel="context length  $N$")
    axes.set(ylabel=r"time of drop  $t/\tau$")
    axes.legend()
