"""Beyond the papers: inputs of any law; the loss depends only on their fourth moments (T20)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.beyond import law_panels
from saddlescope.figures.beyond.rotation import ROTATING, draw_rotation, rotation_numbers
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.merged_run import merged_numbers, until_converged, with_merged_heads
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE, missing_claim, staircase_numbers
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.task.inputs import CoordinateLaw
from saddlescope.theory import in_context_predictor

# Starts that learn all four eigenvectors, in well separated steps.
_FLOW = STAIRCASE.replace(
    context_length=8, seeds=(7, 8), until=40_000.0, points=1500, spacing="log"
)
_MERGED_HEADS = 8
_MERGED_SCALE = 1e-4
# κ of T18: from half-way down to the runaway, in units of 1/(cξ^(1/3)).
_LEAD = 1.2533911927


@dataclass(frozen=True)
class AnyInputs(AbstractFigure):
    """T20: the staircase and merged attention's drop on inputs of five laws, and of two at once."""

    setting: Setting = _FLOW
    laws: tuple[str, ...] = ("rademacher", "uniform", "gaussian", "student:10", "laplace")
    prompts: int = 200_000
    reversed_laws: tuple[str, ...] = ("laplace", "rademacher")
    rotating_seeds: int = 6

    varied = (*FIXED, "inputs", "task_covariance", "query_covariance", "label_noise")

    id = "any-inputs"
    title = "Of the inputs' law the staircase knows the kurtosis alone"
    source = "Beyond the papers (T20)"
    text = (
        "Attention trained on inputs that are not Gaussian, with few of them in the context, so "
        "that their fourth moment matters. (a) Separate attention of rank one from the same start "
        "for five input laws with one covariance. Dashed: the levels of T20. (b) The levels "
        "against the excess kurtosis γ: the formula of T20, the plateaus of training, and the "
        "loss of each fixed point's map on prompts sampled from the law (crosses; their standard "
        "errors are smaller than the markers). (c) How much later the drops come than on Gaussian "
        "inputs: measured, and predicted from the initial weights (T13). The drives do not depend "
        "on the law, so it hardly moves a drop: by a hundredth or less. (d) Merged attention, and "
        "its course by T10. (e, f) Two laws at once: with heavy tails along the stronger of two "
        "eigenvectors and none along the weaker, the first escapes zero first, but the second is "
        "the stable one. The head that has learned the first rotates to it."
    )
    seconds = 20.0

    @classmethod
    def quick(cls) -> AnyInputs:
        laws = ("rademacher", "gaussian", "laplace")
        setting = _FLOW.replace(seeds=(7,), until=20_000.0, points=600)
        return cls(setting, laws, prompts=40_000, rotating_seeds=1)

    def compute(self, watch: Watch) -> xr.Dataset:
        cases = [self._numbers(watch, law) for law in watch.each(self.laws)]
        data = xr.concat(cases, "law").assign_coords(law=list(self.laws))
        task = InContextRegression([0.4, 0.3], 8, inputs=self.reversed_laws)
        rotating = ROTATING.replace(
            task=task, until=12_000.0, seeds=self.rotating_seeds, points=4000
        )
        return data.merge(rotation_numbers(watch.train("rotating", rotating)))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        # Fewer heads than eigenvectors learn fewer of them; merged attention learns all.
        every = np.array([self._levels(float(one)) for one in data["kurtosis"]])
        formula = every[:, : data.sizes["level"]]
        plateaus = data["plateau_loss"].to_numpy()[:, :, 1:]
        times = data["drop_time"].to_numpy()
        seen, first = np.isfinite(times), times[:, :, 0]
        nearest = int(np.abs(data["kurtosis"].to_numpy()).argmin())
        delay = self._delay(data["kurtosis"].to_numpy())
        heavy = data.isel(law=int(data["kurtosis"].to_numpy().argmax()))
        gaussian = self._levels(0.0)[: data.sizes["level"]]
        gaussian = np.abs(heavy["drawn_loss"] - gaussian) / heavy["drawn_error"]
        last = data["merged_loss"].isel(merged_time=-1)
        stops = data["visited_loss"].shape
        return (
            within(
                "the levels of the loss are those with a_d = λ_d²(1 + (1 + γ + tr Λ/λ_d)/N) (T20)",
                data["level_loss"],
                formula,
                1e-12,
            ),
            within(
                "each plateau of separate attention lies at its predicted level (T20)",
                plateaus[seen],
                np.broadcast_to(formula[:, None, 1:], seen.shape)[seen],
                1e-6,
            ),
            at_most(
                "on sampled prompts, the effective maps of the fixed points on the path have "
                "the loss that T20 predicts: difference in standard errors",
                np.abs(data["drawn_loss"] - formula) / data["drawn_error"],
                4.0,
            ),
            at_least(
                "with the heaviest-tailed inputs that loss is not the one of Gaussian inputs: "
                "difference at the last level, in standard errors",
                gaussian[-1],
                10.0,
            ),
            relatively_within(
                "drops come at the times predicted from the initial weights alone (T13, T20)",
                times[seen],
                data["predicted_drop_time"].to_numpy()[seen],
                3e-3,
            ),
            within(
                "relative to the first input law, the first drop is shifted by −κ/c₁ times the "
                "change of ξ₁^(−1/3) (T18, T20)",
                first - first[:1],
                np.broadcast_to((delay[0] - delay)[:, None], first.shape),
                2e-3,
            ),
            at_most(
                "no input law moves a drop by more than a hundredth of its time on Gaussian "
                "inputs: relative shift",
                np.abs(times / times[nearest] - 1)[np.isfinite(times / times[nearest])],
                0.01,
            ),
            missing_claim(data),
            at_most(
                "the loss of merged attention follows D + 1 scalar equations at all times (T10, "
                "T20): largest error",
                abs(data["merged_loss"] - data["merged_predicted_loss"]).max("merged_time"),
                5e-6,
            ),
            within(
                "merged attention ends at the last level (T20)",
                last,
                np.broadcast_to(every[:, -1:], last.shape),
                1e-9,
            ),
            equal(
                "where two input laws make the order of the drives differ from that of the drops, "
                "the theory declines to predict a path",
                data["path_refused"],
                1,
            ),
            equal(
                "in that case every seed visits the fixed points ∅, {1}, {2}, {1, 2} (T17, T20)",
                data["visited"],
                np.broadcast_to([0, 1, 2, 3], stops),
                "visits in this order",
            ),
            within(
                "at each of these visits the loss is that of the fixed point (T20)",
                data["visited_loss"],
                np.broadcast_to(data["point_loss"], stops),
                6e-4,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            shifted("kurtosis in place of excess kurtosis", 3.0, "kurtosis"),
            rolled("the levels of another law", "law", "level_loss"),
            rolled("plateaus of another law", "law", "plateau_loss"),
            rolled("prompts of another law", "law", "drawn_loss"),
            scaled("standard errors of a sixteenth of the prompts", 4.0, "drawn_error"),
            scaled("drops late by a hundredth of their time", 1.01, "drop_time"),
            scaled("predictions of a start twice as large", 0.5, "predicted_drop_time"),
            rolled("the course of another law", "law", "merged_predicted_loss"),
            scaled("a merged loss with a factor one half", 0.5, "merged_loss"),
            rolled("fixed points in another order", "stop", "visited"),
            scaled("fixed points of Gaussian inputs", 1.05, "point_loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(2, 3, width=3.4, height=2.9)
        kurtosis = np.linspace(float(data["kurtosis"].min()), float(data["kurtosis"].max()), 60)
        levels = np.array([self._levels(one) for one in kurtosis])
        law_panels.draw_staircases(axes[0, 0], data)
        law_panels.draw_levels(axes[0, 1], data, kurtosis, levels)
        law_panels.draw_shifts(axes[0, 2], data)
        law_panels.draw_courses(axes[1, 0], data)
        draw_rotation(axes[1, 1], axes[1, 2], data)
        panels.letter(axes.flat)
        return drawing.build()

    def _numbers(self, watch: Watch, law: str) -> xr.Dataset:
        """The runs of separate and merged attention on one law, and its maps on drawn prompts."""
        setting = self.setting.replace(inputs=law)
        name = law.replace(":", "-")
        run = watch.train(name, setting)
        task = of_kind(InContextRegression, setting.task)
        merged = with_merged_heads(setting, _MERGED_HEADS).replace(init_scale=_MERGED_SCALE)
        course = merged_numbers(watch.train(f"{name}-merged", until_converged(merged)))
        numbers, drawn = staircase_numbers(run), task.sample(self.prompts)
        errors = [
            (in_context_predictor(task, learned)(drawn) - drawn.target) ** 2
            for learned in range(numbers.sizes["level"])
        ]
        return numbers.assign(
            kurtosis=CoordinateLaw.parse(law).excess_kurtosis,
            drawn_loss=("level", np.mean(errors, axis=1)),
            drawn_error=("level", np.std(errors, axis=1) / np.sqrt(self.prompts)),
            merged_drop=("seed", course["drop_time"].to_numpy()[:, 0]),
            merged_clock=("merged_time", course["time"].to_numpy()),
            merged_loss=(("seed", "merged_time"), course["loss"].to_numpy()),
            merged_predicted_loss=(("seed", "merged_time"), course["predicted_loss"].to_numpy()),
        )

    def _delay(self, kurtosis: FloatArray) -> FloatArray:
        """How long before the runaway the first drop is half-way down, κ/(c_1 ξ_1^(1/3)) (T18)."""
        eigenvalue = float(self._spectrum.eigenvalues[0])
        amplitude = eigenvalue / np.array([self._summary(one)[0] for one in kurtosis])
        return _LEAD / (eigenvalue**2 * np.cbrt(amplitude))

    def _summary(self, kurtosis: float) -> FloatArray:
        """a_d at an excess kurtosis (T20)."""
        values, inverse = self._spectrum.eigenvalues, self._task.context_length.mean_inverse
        return values**2 * (1 + inverse * (1 + kurtosis + values.sum() / values))

    def _levels(self, kurtosis: float) -> FloatArray:
        """The levels at an excess kurtosis (T7, T20)."""
        values = self._spectrum.eigenvalues
        drops = values**3 / self._summary(kurtosis)
        return values.sum() - np.concatenate([[0.0], np.cumsum(drops)])

    @property
    def _task(self) -> InContextRegression:
        return of_kind(InContextRegression, self.setting.task)

    @property
    def _spectrum(self) -> Spectrum:
        return self._task.spectrum
