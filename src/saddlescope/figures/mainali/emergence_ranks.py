"""Ranks of attention-only decoders around the emergence of in-context learning."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.mainali.induction_claims import (
    bounds_of,
    emergence_claim,
    rank_claims,
    rank_mistakes,
)
from saddlescope.figures.mainali.induction_sheet import AbstractInductionFigure


@dataclass(frozen=True)
class EmergenceRanks(AbstractInductionFigure):
    """Loss, in-context score, prefix matching and ranks of decoders of one to four layers."""

    id = "emergence-ranks"
    title = "In-context learning emerges with two layers and more, and the rank of QK falls"
    source = "After Mainali and Teixeira, on non-linear transformers (no figure of theirs)"
    text = (
        "The runs of mt5, on one time axis. With two or more layers the in-context score falls "
        "abruptly (dotted: the middle of the fall) as heads begin to match prefixes; with one "
        "layer it does not. The marginalised effective rank of the first layer's QK circuits "
        "falls at the emergence, several times as far as it ever does with one layer, and does "
        "not recover within the run. That ranks change around a sudden emergence is the paper's "
        "claim; the criteria that judge it are ours."
    )
    # After mt5, whose runs it reads; alone it takes as long as that.
    seconds = 5.0
    rows = ("loss", "in_context_score", "prefix_matching", "qk_marginal_rank", "ov_marginal_rank")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (emergence_claim(data), *rank_claims(data, bounds_of(self.experiment)))

    def mistakes(self) -> tuple[Mistake, ...]:
        return rank_mistakes()
