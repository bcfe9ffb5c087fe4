"""Grokking in the setting of Nanda et al., as it was recorded: p = 113, three seeds."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.charts import Sheet
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.grokking_sheet import (
    GrokkingBounds,
    draw_grokking,
    grokking_claims,
    grokking_mistakes,
    grokking_numbers,
)
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedFigure

_BOUNDS = GrokkingBounds(delay=20.0, ov=(0.95, 1.3), rank=0.3)


@dataclass(frozen=True)
class GrokkingRecorded(AbstractRecordedFigure):
    """Grokking at p = 113 with 30 % of the pairs, from recorded metrics."""

    id = "grokking-recorded"
    title = "Grokking at p = 113 with 30 % of the pairs, three seeds"
    source = "After Nanda et al. 2023, and Mainali and Teixeira; recorded on an NVIDIA H200"
    text = (
        "The setting of Nanda et al. (one layer, d_model 128, four heads, ReLU, no LayerNorm, "
        "AdamW with weight decay 1, full batch; `GrokkingExperiment.large`), 20 000 steps, "
        "trained once on a GPU by `python -m saddlescope.transformer.recorded FOLDER grokking`; "
        "curves are medians of three seeds, bands their range. The steps depend on rounding: a "
        "second run from the same starts generalised at 6600, 6900 and 4900 instead of 5700, 7700 "
        "and 5000, and in its third seed the OV distance was halved at 1.9 times that step."
    )
    metrics = "grokking"

    def compute(self, watch: Watch) -> xr.Dataset:
        return grokking_numbers(self.read())

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return grokking_claims(data, _BOUNDS)

    def mistakes(self) -> tuple[Mistake, ...]:
        return grokking_mistakes()

    def draw(self, data: xr.Dataset) -> Sheet:
        return draw_grokking(data)
