"""`saddlescope transformer grokking`: every measure of one experiment on one time axis."""

from __future__ import annotations

from dataclasses import dataclass

from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.mainali.grokking_sheet import AbstractGrokkingFigure
from saddlescope.transformer import GrokkingExperiment


@dataclass(frozen=True)
class Grokking(AbstractGrokkingFigure):
    """Modular arithmetic: losses, accuracies, distances, ranks and frequencies."""

    id = "grokking"
    verb = "transformer"
    title = "Modular arithmetic is memorised first and understood later"
    source = "After Nanda et al. 2023, and Mainali and Teixeira on modular arithmetic"
    text = (
        "A one-layer decoder on modular arithmetic, full batch, with strong weight decay: loss and "
        "accuracy in training and test, the share of the five strongest frequencies in the "
        "embedding, and the subspace distance to the end and the marginalised effective rank of "
        "the QK and OV circuits (thin: heads). Dotted: the test accuracy reaches .9."
    )
    seconds = 60.0

    @classmethod
    def presets(cls) -> dict[tuple[str, ...], AbstractFigure]:
        large = cls(GrokkingExperiment.large())
        return {(): cls(), ("--preset", "quick"): cls.quick(), ("--preset", "large"): large}
