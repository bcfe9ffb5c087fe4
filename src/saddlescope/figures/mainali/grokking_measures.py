"""Grokking through the measures of the theory, in a setting that takes a minute."""

from __future__ import annotations

from dataclasses import dataclass

from saddlescope.figures.mainali.grokking_sheet import AbstractGrokkingFigure


@dataclass(frozen=True)
class GrokkingMeasures(AbstractGrokkingFigure):
    """The OV subspace settles late, with the test error."""

    id = "grokking-measures"
    title = "In grokking the OV subspace settles late, with the test error"
    source = "After Mainali and Teixeira, on modular arithmetic (no figure of theirs)"
    text = (
        "Addition modulo 53, trained on half of the pairs: a setting that groks in about a "
        "minute. The training loss vanishes long before the test loss does (dotted: test accuracy "
        ".9). The distance of the OV circuits to their final subspace is halved at about that "
        "time, and that of QK later still; the power of the embedding concentrates in a few "
        "frequencies, and the ranks fall. The recorded run has the setting of Nanda et al. with p "
        "= 113."
    )
    # After mt3, whose run it reads; alone it takes as long as that.
    seconds = 5.0
