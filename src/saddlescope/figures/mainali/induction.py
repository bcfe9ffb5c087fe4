"""`saddlescope transformer induction`: every measure of one experiment on one time axis."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.mainali import induction_claims, induction_sheet
from saddlescope.figures.mainali.induction_sheet import AbstractInductionFigure
from saddlescope.transformer import Corpus, InductionExperiment


@dataclass(frozen=True)
class Induction(AbstractInductionFigure):
    """Decoders of several depths: loss, scores, ranks and subspace distances."""

    id = "induction"
    verb = "transformer"
    title = "How attention-only decoders come to learn in context"
    source = "After Mainali and Teixeira, on non-linear transformers"
    text = (
        "Attention-only decoders of several depths, trained alike, on one time axis: loss, "
        "in-context score (loss late in the context minus loss early in it), prefix matching of "
        "each head, marginalised effective rank of the QK and OV circuits and their subspace "
        "distance to the last step. Curves are medians of the seeds, bands their range, thin lines "
        "the heads of the first seed. Dotted: the emergence of in-context learning, the middle of "
        "the change point of the score; it counts where the score falls abruptly, within a factor "
        "e of the steps (`measure.change_point`)."
    )
    seconds = 260.0
    rows = tuple(induction_sheet.LABELS)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        bounds = induction_claims.bounds_of(self.experiment)
        return (
            induction_claims.emergence_claim(data),
            *induction_claims.rank_claims(data, bounds),
            *induction_claims.distance_claims(data, bounds),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (*induction_claims.rank_mistakes(), *induction_claims.distance_mistakes())

    @classmethod
    def presets(cls) -> dict[tuple[str, ...], AbstractFigure]:
        large: dict[tuple[str, ...], AbstractFigure] = {
            ("--preset", "large", "--corpus", corpus): cls(InductionExperiment.large(corpus))
            for corpus in Corpus
        }
        return {(): cls(), ("--preset", "quick"): cls.quick(), **large}
