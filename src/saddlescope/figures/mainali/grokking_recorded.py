"""Grokking in the setting of Nanda et al., as it was recorded: p = 113, three seeds."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr
from matplotlib.figure import Figure

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.grokking_sheet import (
    delay_claims,
    draw_grokking,
    grokking_numbers,
    measure_claims,
)
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedFigure


@dataclass(frozen=True)
class GrokkingRecorded(AbstractRecordedFigure):
    """Figure 7 at p = 113 with 30 % of the pairs, from recorded metrics."""

    id = "grokking-recorded"
    title = "Grokking at p = 113 with 30 % of the pairs, three seeds"
    source = "Nanda et al. 2023; Mainali and Teixeira, Figure 7; recorded on an NVIDIA H200"
    text = (
        "The setting of Nanda et al. (one layer, d_model 128, four heads, ReLU, no LayerNorm, "
        "AdamW with weight decay 1, full batch; `GrokkingExperiment.large`), 20 000 steps, "
        "trained once on a GPU by `python -m saddlescope.transformer.recorded FOLDER grokking`; "
        "curves are medians of three seeds, bands their range."
    )
    metrics = "grokking"

    def compute(self, watch: Watch) -> xr.Dataset:
        return grokking_numbers(self.read())

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (*delay_claims(data), *measure_claims(data))

    def draw(self, data: xr.Dataset) -> Figure:
        return draw_grokking(data)
