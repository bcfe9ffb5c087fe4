"""The induction experiment for a GPU on text, as it was recorded: three seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.figures.kit.claim import Claim, at_least
from saddlescope.figures.kit.mistake import Mistake, replaced, rolled, scaled
from saddlescope.figures.mainali import induction_claims
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedInduction

# Depths by seeds.
_EMERGED = np.array([np.nan, 900.0, 900.0, 900.0])[:, None]


@dataclass(frozen=True)
class InductionTextRecorded(AbstractRecordedInduction):
    """Decoders of one to four layers on the sources of Python's standard library."""

    id = "induction-text-recorded"
    title = "On text the context helps the more the deeper, and nothing emerges abruptly"
    source = "after Mainali and Teixeira, Figure 5, on text; recorded on an NVIDIA H200"
    text = (
        "The decoders of the recorded induction experiment on text: the sources of Python's "
        "standard library in 1024 byte pairs, 2800 steps (`InductionExperiment.large('text')`), "
        "trained once on a GPU by `python -m saddlescope.transformer.recorded FOLDER text`. The "
        "in-context score falls smoothly and further with every layer, and heads begin to match "
        "prefixes from three layers on, but within the run no head reaches .2 and the context "
        "saves far less than half of the loss, so that no emergence is counted; the paper's "
        "claims about what happens around it cannot be judged here."
    )
    metrics = "text"

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        end = data.isel(step=-1)
        score = end["in_context_score"].median("seed")
        matching = end["prefix_matching"].max(("layer", "head")).median("seed")
        return (
            induction_claims.emergence_claim(data).expected_to_fail(
                "2800 steps are too few on text: the score still falls at the end, and no head "
                "has a prefix matching of .2 by then"
            ),
            at_least(
                "every layer more lowers the in-context score: by how much, in nats",
                -np.diff(score),
                0.05,
            ),
            at_least(
                "every layer more raises the best prefix matching: by how much",
                np.diff(matching),
                0.01,
            ),
            induction_claims.early_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("depths in another order", "layers", "in_context_score", "prefix_matching"),
            scaled("bits in place of nats, and half of them", 0.7, "in_context_score"),
            scaled("prefixes matched half as well", 0.5, "prefix_matching"),
            scaled("half as many steps", 0.5, "half_step"),
            replaced("an emergence with two layers and more", {"emergence": _EMERGED}),
        )
