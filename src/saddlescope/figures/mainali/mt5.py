"""Figure 5 of Mainali and Teixeira: in-context learning emerges, and the rank of QK falls."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.mainali.induction_sheet import (
    AbstractInductionFigure,
    emergence_claim,
    rank_claims,
)


@dataclass(frozen=True)
class MT5(AbstractInductionFigure):
    """Loss, in-context score, prefix matching and ranks of decoders of one to four layers."""

    id = "mt5"
    title = "In-context learning emerges with two layers and more, and the rank of QK falls"
    source = "Mainali and Teixeira, Figure 5"
    text = (
        "Attention-only decoders of one to four layers on random tokens that repeat with a random "
        "period, on one time axis. With two layers and more the in-context score falls abruptly "
        "(dotted: half-way, for good) as heads begin to match prefixes; with one layer it does "
        "not. The paper says that the marginalised effective rank of the QK circuits dips around "
        "it. Here the rank of the first layer falls at the emergence, several times as far as it "
        "ever does with one layer, but it stays there: there is no way back up within the run."
    )
    seconds = 260.0
    rows = ("loss", "in_context_score", "prefix_matching", "qk_marginal_rank", "ov_marginal_rank")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (emergence_claim(data), *rank_claims(data))
