"""The induction experiment for a GPU on text, as it was recorded: three seeds."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from saddlescope.figures.kit.claim import Claim, at_least, within
from saddlescope.figures.kit.mistake import Mistake, replaced, rolled, scaled
from saddlescope.figures.mainali import induction_claims
from saddlescope.figures.mainali.recorded_figure import AbstractRecordedInduction


@dataclass(frozen=True)
class InductionTextRecorded(AbstractRecordedInduction):
    """Decoders of one and two layers on the sources of Python packages."""

    id = "induction-text-recorded"
    title = "On text two layers learn in context abruptly too, though not from every start"
    source = "After Mainali and Teixeira, Figure 5, on text; recorded on an NVIDIA H200"
    text = (
        "The decoders of the recorded induction experiment with one and two layers on text: 64 MB "
        "of sources of Python packages, 25.7 million tokens in 1024 byte pairs, a tenth of them "
        "held out, contexts of 256 tokens, 15 000 steps of 64 passages (246 million tokens, 10.6 "
        "epochs), trained once on a GPU by `python -m saddlescope.transformer.recorded FOLDER "
        "text-constant-1 text-constant-2` with those packages in the folder `corpus`. In two of "
        "three seeds of two layers the in-context score falls abruptly around step 5000, and a "
        "head comes to match prefixes with .4; the held-out loss ends at 2.2 nats a token. In the "
        "third neither happens within the run, and the loss ends at 2.6. With one layer (2.8 "
        "nats) nothing emerges. The subspace distance falls evenly: it is halved after the "
        "emergence, and the drift between records does not rise at it."
    )
    metrics = "text-constant"

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        two, end = data.sel(layers=2), data.isel(step=-1)
        emerged = two["emergence"].notnull()
        loss = end["loss"].sel(layers=2)
        score = end["in_context_score"].median("seed")
        return (
            induction_claims.emergence_claim(data).expected_to_fail(
                "in one seed of two layers nothing emerges within 15 000 steps"
            ),
            within(
                "a prefix-matching head appears soon after in-context learning emerges: ratio "
                "of the two steps, mean over the seeds that have both",
                (two["emergence_by_heads"] / two["emergence"]).mean(),
                1.15,
                0.06,
            ),
            at_least(
                "the held-out loss ends lower in seeds where in-context learning emerges: least "
                "difference, nats a token",
                loss.where(~emerged).min() - loss.where(emerged).max(),
                0.3,
            ),
            at_least(
                "two layers gain more from the context than one: difference of the in-context "
                "scores, nats, median of the seeds",
                score.sel(layers=1) - score.sel(layers=2),
                0.15,
            ),
            induction_claims.late_claim(data),
            induction_claims.before_claim(data),
            induction_claims.drift_claim(data).expected_to_fail(
                "on text the drift falls evenly from the start on, through the emergence"
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("depths in another order", "layers", "in_context_score"),
            rolled("seeds in another order", "seed", "loss"),
            scaled("bits in place of nats, and half of them", 0.35, "in_context_score"),
            scaled("heads that match prefixes a fifth later", 1.2, "emergence_by_heads"),
            scaled("half as many steps", 0.5, "half_step"),
            scaled("an emergence a quarter later", 1.3, "emergence"),
            replaced("a drift that rises", {"drift_rise": 1.3}),
        )
