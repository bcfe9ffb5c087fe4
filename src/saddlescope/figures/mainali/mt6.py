"""Figure 6 of Mainali and Teixeira: the subspaces of QK and OV on their way to the end."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.mainali.induction_sheet import (
    AbstractInductionFigure,
    distance_claims,
    pace_claims,
)


@dataclass(frozen=True)
class MT6(AbstractInductionFigure):
    """Subspace distances of QK and OV to their last value, by depth."""

    id = "mt6"
    title = "The subspaces of QK and OV turn fastest around the emergence, and settle late"
    source = "Mainali and Teixeira, Figure 6"
    text = (
        "The runs of figure 5. The distance of each head's QK and OV circuit to that of the last "
        "step (THEORY section 7; thin lines: heads). The paper says that these distances fall "
        "early. Here they fall throughout, fastest around the emergence of in-context learning "
        "(dotted), and are halved about half-way through the run, since at a constant learning "
        "rate AdamW goes on turning them until the end."
    )
    # After figure 5, whose run it reads; alone it takes as long as that.
    seconds = 5.0
    rows = ("in_context_score", "qk_distance", "ov_distance")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (*distance_claims(data), *pace_claims(data))
