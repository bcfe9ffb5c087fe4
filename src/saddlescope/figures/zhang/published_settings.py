"""Figures 3 and 4 of Zhang et al. in the authors' own settings: their start, data and steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart, SeparateAttention
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientDescent
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import rank_runs
from saddlescope.figures.zhang.staircase import STAIRCASE, initial_scale, wrong_levels
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import plateau_losses

_FIGURE3 = STAIRCASE.replace(
    model=SeparateAttention(heads=5, rank=1, blocks="full", normalisation="none"),
    method=GradientDescent(0.02, steps=60_000),
    init_scale=0.01,
    points=800,
    spacing="log",
)
_PUBLISHED_STEPS = 10_001
# The scale of Figure 4, without the 1/N; with it the same path begins at N^(1/3) times that.
_FIGURE4_SCALE = 5e-3
# The relative error of a moment of fourth order in the inputs, over P prompts, is about √(10/P).
_MOMENT_VARIANCE = 10.0
# Descent does not rest on a plateau of finite length; measured 6e-5.
_LEVEL_TOLERANCE = 2e-4
_KINDS = ("population", "data")


@dataclass(frozen=True)
class PublishedSettings(AbstractFigure):
    """The staircase and the ranks, on the population and on as many prompts as published."""

    setting: Setting = _FIGURE3
    prompts: int = 5000
    ranks: tuple[int, ...] = (2, 4)
    rank_prompts: int = 80_000
    rank_seeds: int = 3
    rank_until: float = 60_000.0

    varied = ("activation", "softmax_scale", "weights", "rank", "blocks", "normalisation", "at")

    id = "published-settings"
    title = "Figures 3 and 4 in the authors' own settings"
    source = "Zhang et al., Figures 3 and 4 (arXiv v1), in the conventions of their code"
    text = (
        "(a, b) Figure 3 as published: all blocks, each entry of a weight drawn with standard "
        "deviation .01 over the root of its number of entries, attention not divided by N, "
        "gradient descent at rate .02, on the population and on 5000 prompts through their "
        "statistics (T6: the same steps as on the prompts). The published runs end at the "
        "vertical line, after 10 001 steps; the fourth drop comes later in every run, at about 26 "
        "000 steps in the median. Training on data moves the first drops by a few per cent and "
        "the last by more. The random blocks make drops come sooner: ν_i u_iᵀ adds to v_i U_i in "
        "the map. (c, d) The scale of Figure 4, 5e-3, and its 80 000 prompts: the loss on the "
        "population (thin) and on data (wide), in flow time, from the weights that are equivalent "
        "once attention is divided by N. On data too, the conspicuous plateaus are at multiples "
        "of R."
    )
    departures = (
        "the draws are ours: the authors' random numbers are not known",
        "Figure 4 by gradient flow and without the blocks that are zero in expectation",
    )
    seconds = 40.0

    @classmethod
    def quick(cls) -> PublishedSettings:
        short = _FIGURE3.replace(seeds=2, steps=20_000, points=500)
        return cls(short, ranks=(2,), rank_prompts=20_000, rank_seeds=2, rank_until=25_000.0)

    def compute(self, watch: Watch) -> xr.Dataset:
        task = of_kind(InContextRegression, self.setting.task)
        start = GivenStart(authors_weights(self.setting), self.setting.seeds)
        base = self.setting.replace(init=start)
        drawn = task.statistics(self.prompts, seed=1, blocks="full")
        cases = (base, base.replace(task=drawn))
        runs = [
            watch.train(name, one)
            for name, one in watch.each(list(zip(_KINDS, cases, strict=True)))
        ]
        losses, levels = np.array([run.loss for run in runs]), plateau_losses(task)
        step = runs[0].dataset["step"].to_numpy().astype(np.float64)
        drops = drop_times(losses, levels, step)
        plateaus = [
            rank_runs.plateau_levels(step, loss, at)
            for loss, at in zip(losses[0], drops[0], strict=True)
        ]
        data = xr.Dataset(
            {
                "loss": (("kind", "seed", "step"), losses),
                "level_loss": ("level", levels),
                "plateau_loss": (("seed", "level"), np.array(plateaus)),
                "drop_step": (("kind", "seed", "drop"), drops),
            },
            coords={"kind": list(_KINDS), "seed": list(base.seeds), "step": step},
        )
        return data.merge(self._ranks(watch))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        steps = data["drop_step"].to_numpy()
        done = (steps <= _PUBLISHED_STEPS).all(axis=2).sum(axis=1)
        fourth = np.where(np.isnan(steps[..., -1]), float(data["step"][-1]), steps[..., -1])
        reached = np.isfinite(data["plateau_loss"].to_numpy())
        on_levels = np.broadcast_to(data["level_loss"].to_numpy(), reached.shape)
        drawn = 3 * float(np.sqrt(_MOMENT_VARIANCE / self.prompts))
        ends = data["loss"].isel(step=0)
        return (
            equal(
                "all four drops come within the published 10 001 steps: number of seeds in "
                "which they do, on the population and on data",
                done,
                np.full(len(done), data.sizes["seed"]),
                "kinds of data in which all seeds drop in time",
            )
            .stated_in("Z Figure 3")
            .expected_to_fail(
                "the fourth comes after 14 000 steps at the earliest of twelve runs, and after "
                "26 000 in the median"
            ),
            at_least(
                "in every run of both kinds the fourth drop comes after the published 10 001 "
                "steps: its step, or the last of the run",
                fourth,
                _PUBLISHED_STEPS,
            ),
            within(
                "on the population, each plateau lies at the loss of its fixed point, all "
                "blocks trained (T7)",
                data["plateau_loss"].to_numpy()[reached],
                on_levels[reached],
                _LEVEL_TOLERANCE,
            ).stated_in("Z 24, 59"),
            relatively_within(
                "training on data moves the first drop by no more than three standard errors of "
                "a fourth moment over that many prompts",
                steps[1, :, 0],
                steps[0, :, 0],
                drawn,
            ),
            relatively_within(
                "every run begins at a loss of tr Λ, within the same three standard errors",
                ends,
                np.full(ends.shape, float(data["level_loss"][0])),
                drawn,
            ),
            *(
                claim
                for kind in _KINDS
                for claim in rank_runs.share_claims(data.sel(kind=kind), kind)
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *wrong_levels(self.setting.replace(blocks="reduced", normalisation="context")),
            scaled("steps in units of flow time", 0.4, "drop_step"),
            changed("data from other starts", "drop_step", by=_other_starts),
            scaled("a run whose last drops come in time", 0.2, "drop_step"),
            rolled("plateaus counted from the drop before", "plateau", "plateau_share"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        count = 2 + data.sizes["rank"]
        drawing, axes = panels.sheet_of(count, 2, width=3.9, height=2.6)
        for index, name in enumerate(_KINDS):
            _draw_staircase(axes.flat[index], data.sel(kind=name), name)
        for index, rank in enumerate(data["rank"].to_numpy()):
            panel = axes.flat[2 + index]
            for kind, look in zip(_KINDS, ({"linewidth": 0.8}, {"linewidth": 2.4}), strict=True):
                one = data.sel(kind=kind, rank=rank)
                for seed in range(one.sizes["rank_seed"]):
                    label = kind if seed == 0 else None
                    curve = one["rank_loss"][seed]
                    tint, alpha = panels.colour(seed), 1.0 if kind == "population" else 0.4
                    panel.plot(one["time"], curve, color=tint, alpha=alpha, label=label, **look)
            panels.levels(
                panel, data["rank_level_loss"][:: int(rank)], "levels at multiples of $R$"
            )
            first = float(data["time"][-1]) / 60
            panel.set(xscale="log", xlim=(first, float(data["time"][-1])), ylim=(0, 1.1))
            panel.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)
            panel.legend(3)
        panels.letter(axes.flat[:count])
        for panel, rank in zip(axes.flat[2:count], data["rank"].to_numpy(), strict=True):
            panel.set_title(f"{panel.titles['right']}  $R={int(rank)}$", loc="right")
        return drawing.build()

    def _ranks(self, watch: Watch) -> xr.Dataset:
        """Figure 4's ranks at its scale, on the population and on its prompts."""
        scale = _FIGURE4_SCALE * 31 ** (1 / 3)
        setting = rank_runs.RANKS.replace(
            init_scale=scale, seeds=self.rank_seeds, until=self.rank_until, points=600
        )
        law = of_kind(InContextRegression, setting.task)
        drawn = law.statistics(self.rank_prompts, seed=2)
        parts = [
            rank_runs.train_ranks(watch, one, self.ranks, law=law, name=kind)
            for kind, one in zip(_KINDS, (setting, setting.replace(task=drawn)), strict=True)
        ]
        names = {"loss": "rank_loss", "level_loss": "rank_level_loss"}
        joined = xr.concat(
            [part[["loss", "plateau_share", "level_loss"]] for part in parts],
            xr.Variable("kind", list(_KINDS)),
            data_vars=["loss", "plateau_share"],
        )
        axes = {"seed": "rank_seed", "level": "rank_level"}
        return joined.rename(names).rename(axes)


def authors_weights(setting: Setting) -> dict[str, FloatArray]:
    """Weights as the authors' code draws them: deviation scale/√(entries of the whole weight)."""
    model = of_kind(SeparateAttention, setting.model)
    size, heads, scale = setting.task.dimension + 1, model.heads, initial_scale(setting)
    shapes = model.shapes(setting.task.dimension)
    entries = dict.fromkeys(shapes, heads * model.rank * size)
    entries |= dict.fromkeys(("v", "nu"), heads * size**2)
    drawn: dict[str, list[FloatArray]] = {name: [] for name in shapes}
    for seed in setting.seeds:
        generator = np.random.default_rng(seed)
        for name, shape in shapes.items():
            deviation = scale / np.sqrt(entries[name])
            drawn[name].append(deviation * generator.standard_normal(shape))
    return {name: np.array(arrays) for name, arrays in drawn.items()}


def _other_starts(steps: xr.DataArray) -> xr.DataArray:
    """The drops on data those of other seeds than on the population."""
    rolled_steps = steps.copy()
    rolled_steps[1] = np.roll(steps.to_numpy()[1], 1, axis=0)
    return rolled_steps


def _draw_staircase(axes: PanelBuilder, data: xr.Dataset, name: str) -> None:
    levels = data["level_loss"].to_numpy()
    panels.levels(axes, levels, "levels (T7)")
    panels.seed_curves(axes, data["step"], data["loss"], name)
    axes.axvline(_PUBLISHED_STEPS, color="0.6", linewidth=0.8, label="published runs end")
    axes.set(xscale="log", xlim=(500, float(data["step"][-1])), ylim=(0, None))
    axes.set(xlabel="steps of gradient descent", ylabel=panels.LOSS_LABEL)
    axes.legend(2)
