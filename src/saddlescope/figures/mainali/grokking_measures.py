"""Grokking through the measures of the theory, in a setting that takes a minute."""

from __future__ import annotations

from dataclasses import dataclass

from saddlescope.figures.mainali.grokking_sheet import AbstractGrokkingFigure


@dataclass(frozen=True)
class GrokkingMeasures(AbstractGrokkingFigure):
    """The OV subspace settles late, with the test error."""

    id = "grokking-measures"
    title = "In grokking the OV subspace settles late, with the test error"
    source = "after Mainali and Teixeira, on modular arithmetic (no figure of theirs)"
    text = (
        "Addition modulo 53, half of the pairs in training: a setting that groks in about a "
        "minute. Training is perfect long before the test is (dotted: test accuracy .9). The OV "
        "circuits' distance to their last subspace is halved about then, and QK's later still; "
        "the embedding gathers its power in a few frequencies, and the ranks fall. The recorded "
        "run has the setting of Nanda et al. with p = 113."
    )
    # After mt3, whose run it reads; alone it takes as long as that.
    seconds = 5.0
