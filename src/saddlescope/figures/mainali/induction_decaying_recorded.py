"""The induction experiment for a GPU with a learning rate that falls to 0, as recorded."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.mainali import induction_claims
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedInduction


@dataclass(frozen=True)
class InductionDecayingRecorded(AbstractRecordedInduction):
    """The same decoders with a learning rate that falls to 0, of one, two and four layers."""

    id = "induction-decaying-recorded"
    title = "With a rate that falls to 0 the subspaces settle early, yet after the emergence"
    source = "After Mainali and Teixeira, Figure 5; recorded on an NVIDIA H200"
    text = (
        "The decoders of induction-recorded with one, two and four layers, with a learning rate "
        "that falls linearly to 0 after the warm-up: the distance to the last step then does not "
        "depend on where one stops. Trained once on a GPU by `python -m "
        "saddlescope.transformer.recorded FOLDER repeated-decaying-1 …`. The subspace distance is "
        "halved within a third of the run, as in Mainali and Teixeira's Figure 5, and the sooner "
        "after the emergence the deeper the model, but after it: three fifths of the distance are "
        "still left there. The QK rank falls at the emergence and does not recover."
    )
    metrics = "repeated-decaying"

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        bounds = induction_claims.DECAYING
        return (
            induction_claims.emergence_claim(data),
            *induction_claims.rank_claims(data, bounds),
            induction_claims.early_claim(data),
            *induction_claims.around_claims(data, bounds),
            induction_claims.deeper_claim(data),
            induction_claims.drift_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *induction_claims.rank_mistakes(),
            *induction_claims.distance_mistakes(),
            *induction_claims.drift_mistakes(),
        )
