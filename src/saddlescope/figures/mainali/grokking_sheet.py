"""What the figures of grokking share: numbers, claims, and a sheet on one time axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet, SheetBuilder
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.claim import Claim, at_least, at_most
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, scaled, swapped
from saddlescope.figures.kit.panels import (
    THEORY_COLOUR,
    colour,
    head_curves,
    letter,
    seed_band,
    sheet,
)
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.induction_sheet import last_above_half
from saddlescope.transformer import GrokkingExperiment, generalisation_step, memorisation_step

_MEASURES = (
    "embedding_power",
    "ov_distance",
    "ov_marginal_rank",
    "qk_distance",
    "qk_marginal_rank",
    "test_accuracy",
    "test_loss",
    "train_accuracy",
    "train_loss",
)
_DEFAULT = GrokkingExperiment()
# In single precision a smaller loss is rounded to zero.
_LEAST_LOSS = 1e-8
# Frequencies that hold most of the embedding's power once it has grokked.
_LEADING = 5


@dataclass(frozen=True)
class GrokkingBounds:
    """The bounds of the claims about a grokking run, which depend on its size and length."""

    delay: float
    """How many times the steps of memorisation those of generalisation are, at least."""
    ov: tuple[float, float]
    """Between which shares of the step of generalisation the OV distance is halved."""
    rank: float
    """The share of its first value to which the OV rank falls, at most."""


_WHOLE = GrokkingBounds(delay=3.5, ov=(0.65, 0.95), rank=0.65)
# A run that ends sooner has less distance to its end, so that half of it is passed sooner.
_SHORT = GrokkingBounds(delay=3.5, ov=(0.45, 0.7), rank=0.65)


@dataclass(frozen=True)
class AbstractGrokkingFigure(AbstractFigure):
    """A figure of one grokking experiment."""

    experiment: GrokkingExperiment = _DEFAULT

    @classmethod
    def quick(cls) -> AbstractGrokkingFigure:
        # The default, but shorter: smaller primes settle before they generalise.
        return cls(GrokkingExperiment(steps=2000, record=51))

    def compute(self, watch: Watch) -> xr.Dataset:
        return grokking_numbers(watch.run(self.experiment))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return grokking_claims(data, _WHOLE if self.experiment == _DEFAULT else _SHORT)

    def mistakes(self) -> tuple[Mistake, ...]:
        return grokking_mistakes()

    def draw(self, data: xr.Dataset) -> Sheet:
        return draw_grokking(data)


def grokking_numbers(run: xr.Dataset) -> xr.Dataset:
    """The measures of a run, and the steps of its events.

    - `memorisation`, `generalisation` (seed): when training accuracy reaches .99, test accuracy .9.
    - `ov_half_step`, `qk_half_step` (seed): when the subspace distance to the end, averaged over
      heads, has fallen for good to half of what it was at first.
    - `leading_power` (seed, step): the share of the five strongest frequencies in the embedding.
    """
    data = run[list(_MEASURES)].assign(
        memorisation=memorisation_step(run), generalisation=generalisation_step(run)
    )
    for name in ("ov", "qk"):
        distance = data[f"{name}_distance"].mean(("layer", "head"))
        data[f"{name}_half_step"] = last_above_half(distance)
    ordered = np.sort(data["embedding_power"].transpose("seed", "step", "frequency").to_numpy())
    return data.assign(leading_power=(("seed", "step"), ordered[:, :, -_LEADING:].sum(axis=2)))


def grokking_claims(data: xr.Dataset, bounds: GrokkingBounds) -> tuple[Claim, ...]:
    """It generalises late, and the measures show when."""
    return (*delay_claims(data, bounds.delay), *measure_claims(data, bounds))


def grokking_mistakes() -> tuple[Mistake, ...]:
    """Steps, distances, frequencies and ranks that are not those of the run."""
    return (
        scaled("the OV half-step at .55 of its step", 0.55, "ov_half_step"),
        scaled("the OV half-step at 1.4 times its step", 1.4, "ov_half_step"),
        swapped("OV and QK exchanged", "ov_half_step", "qk_half_step"),
        swapped("memorisation and generalisation", "memorisation", "generalisation"),
        scaled("memorisation twice as late", 2.0, "memorisation"),
        scaled("a test that is never passed", 0.95, "test_accuracy"),
        scaled("four of the five strongest frequencies", 0.8, "leading_power"),
        changed("ranks from the last to the first", "ov_marginal_rank", by=_backwards),
    )


def _backwards(curves: xr.DataArray) -> xr.DataArray:
    return curves.isel(step=slice(None, None, -1))


def delay_claims(data: xr.Dataset, least: float) -> tuple[Claim, ...]:
    """It memorises first and generalises later."""
    return (
        at_least(
            "the model generalises long after it has memorised: ratio of the two steps, each seed",
            data["generalisation"] / data["memorisation"],
            least,
        ).stated_in("MT Figure 3B"),
        at_least(
            "the model generalises: final test accuracy of each seed",
            data["test_accuracy"].isel(step=-1),
            0.99,
        ),
    )


def measure_claims(data: xr.Dataset, bounds: GrokkingBounds) -> tuple[Claim, ...]:
    """The course of the measures."""
    ranks = data["ov_marginal_rank"].mean(("layer", "head"))
    late = data["ov_half_step"] / data["generalisation"]
    earliest, latest = bounds.ov
    return (
        at_least(
            "the OV subspace distance is halved late, with the test error: step at which it is "
            "halved over the step of generalisation, each seed",
            late,
            earliest,
        ),
        at_most(
            "the OV subspace distance is halved no later than that: the same ratio", late, latest
        ),
        at_least(
            "the QK subspace distance is halved later still: its step over that of OV",
            data["qk_half_step"] / data["ov_half_step"],
            1.3,
        ),
        at_least(
            "the five strongest frequencies hold most of the embedding's power at the end: "
            "their share",
            data["leading_power"].isel(step=-1),
            0.85,
        ),
        at_most(
            "the marginalised effective rank of OV falls: final over initial",
            ranks.isel(step=-1) / ranks.isel(step=0),
            bounds.rank,
        ),
    )


def draw_loss(panel: PanelBuilder, data: xr.Dataset) -> None:
    """Train and test loss on a logarithmic scale."""
    for index, name in enumerate(("train", "test")):
        seed_band(panel, data[f"{name}_loss"].clip(min=_LEAST_LOSS), colour(index), name)
    panel.set(yscale="log", ylabel="loss  (nats)", xlabel="step")


def draw_grokking(data: xr.Dataset) -> Sheet:
    """Loss, accuracy, distances, ranks and frequencies on one time axis."""
    drawing, axes = sheet(2, 3, width=3.4, height=2.5, sharex=True)
    loss, accuracy, power, distance, ranks, spectrum = axes.ravel()
    draw_loss(loss, data)
    for index, name in enumerate(("train", "test")):
        seed_band(accuracy, data[f"{name}_accuracy"], colour(index), name)
    accuracy.set(ylabel="accuracy")
    seed_band(power, data["leading_power"], colour(2), f"{_LEADING} strongest")
    power.set(ylabel="share of the embedding's power", ylim=(0, 1))
    for panel, measure, label in (
        (distance, "distance", "subspace distance to the end"),
        (ranks, "marginal_rank", "marginalised effective rank"),
    ):
        for circuit, tint in (("ov", colour(3)), ("qk", colour(4))):
            curves = data[f"{circuit}_{measure}"]
            head_curves(panel, curves.isel(seed=0, layer=0), tint)
            seed_band(panel, curves.mean(("layer", "head")), tint, circuit.upper())
        panel.set(ylabel=label, ylim=(0, None))
    _draw_spectrum(drawing, spectrum, data.isel(seed=0))
    letter(axes.flat)
    for panel in axes.flat:
        if panel is spectrum:
            continue
        for step in data["generalisation"].to_numpy():
            panel.axvline(float(step), color=THEORY_COLOUR, linewidth=0.9, linestyle=":")
        panel.plot([], [], color=THEORY_COLOUR, linestyle=":", label="generalisation")
        panel.legend()
    for panel in axes[-1]:
        panel.set(xlabel="step")
    loss.set(xlabel="")
    return drawing.build()


def _draw_spectrum(drawing: SheetBuilder, panel: PanelBuilder, one: xr.Dataset) -> None:
    power: FloatArray = one["embedding_power"].transpose("frequency", "step").to_numpy()
    frequencies = one["frequency"].to_numpy()
    panel.pcolormesh(one["step"], frequencies, np.sqrt(power), cmap="cividis")
    panel.set(ylabel="frequency of the embedding")
    drawing.colorbar([panel], "amplitude  (share$^{1/2}$)")
