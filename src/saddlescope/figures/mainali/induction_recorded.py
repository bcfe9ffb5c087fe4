"""The induction experiment for a GPU, as it was recorded: repeated tokens, three seeds."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.mainali import induction_claims
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedInduction


@dataclass(frozen=True)
class InductionRecorded(AbstractRecordedInduction):
    """Distances and ranks of wider decoders and three seeds, from recorded metrics."""

    id = "induction-recorded"
    title = "Induction at the larger preset, three seeds: the same emergence, the same fall of QK"
    source = "After Mainali and Teixeira, Figure 5 and its like; recorded on an NVIDIA H200"
    text = (
        "Attention-only decoders of 256 dimensions and eight heads, 3000 steps on random tokens "
        "that repeat with a random period (`InductionExperiment.large`), trained once on a GPU by "
        "`python -m saddlescope.transformer.recorded FOLDER repeated-constant-1 …`; the metrics "
        "are as recorded. Curves are medians of three seeds, bands their range, thin lines the "
        "heads of the first. In-context learning emerges within a record of the same step in all "
        "seeds of a depth; in one seed of three layers and one of four, it does so without a head "
        "that matches prefixes well on the probes. The drift between records, which no later step "
        "can change, is largest around the emergence (with one layer, around its slower fall) and "
        "then stays constant: the subspaces keep turning."
    )
    metrics = "repeated-constant"

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (
            induction_claims.emergence_claim(data),
            induction_claims.head_claim(data).expected_to_fail(
                "one seed of three layers and one of four learn in context without a head that "
                "matches prefixes with .2 on the probes: only the score tells their emergence"
            ),
            *induction_claims.rank_claims(data, induction_claims.LARGE),
            *induction_claims.distance_claims(data, induction_claims.LARGE),
            induction_claims.deeper_claim(data).expected_to_fail(
                "at this size it falls from two layers to three and rises again to four"
            ),
            induction_claims.drift_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *induction_claims.rank_mistakes(),
            *induction_claims.distance_mistakes(),
            *induction_claims.drift_mistakes(),
        )
