"""Figure 5 of Mainali and Teixeira: the subspaces of QK and OV, and the emergence."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.mainali.induction_claims import (
    bounds_of,
    deeper_claim,
    distance_claims,
    distance_mistakes,
    emergence_claim,
    emergence_mistakes,
)
from saddlescope.figures.mainali.induction_sheet import AbstractInductionFigure


@dataclass(frozen=True)
class MT5(AbstractInductionFigure):
    """The subspace distance, averaged over QK and OV, of decoders of one to four layers."""

    id = "mt5"
    title = "The subspaces of QK and OV turn fastest around the emergence, and settle after it"
    source = "Mainali and Teixeira, Figure 5"
    text = (
        "Attention-only decoders of one to four layers on random tokens that repeat with a random "
        "period. Above: the in-context score, which falls abruptly with two or more layers "
        "(dotted: the middle of its change point; grey: within a factor 1.5 of that step) and not "
        "with one. Below: the distance of the QK and OV circuits from those of the last step "
        "(THEORY section 7), averaged over both and over all heads. The paper finds that it "
        "converges relatively early, before or together with the emergence, especially in deeper "
        "models. Here it falls throughout, fastest around the emergence, when three fifths of it "
        "are still left, and is halved half-way through the run, after the emergence, though the "
        "sooner after it the deeper the model: at a constant learning rate AdamW keeps turning "
        "the subspaces until the end. Model sizes, data and schedule of the paper are not known "
        "to us; the verdicts hold for this setting."
    )
    departures = (
        "model sizes, data, schedule and smoothing are ours: the paper's are not known to us",
    )
    seconds = 260.0
    rows = ("in_context_score", "distance")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        claims = (emergence_claim(data), *distance_claims(data, bounds_of(self.experiment)))
        several = (data["layers"] > 1).sum() > 1
        return (*claims, deeper_claim(data)) if several else claims

    def mistakes(self) -> tuple[Mistake, ...]:
        return (*emergence_mistakes(), *distance_mistakes())
