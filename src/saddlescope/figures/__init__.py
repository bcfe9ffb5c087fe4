"""The papers' figures and those beyond them: each with its setting, its run and its claims."""

from saddlescope.figures.base import AbstractFigure
from saddlescope.figures.claim import Claim
from saddlescope.figures.fig3 import Figure3
from saddlescope.figures.watch import Watch

FIGURES: tuple[type[AbstractFigure], ...] = (Figure3,)
"""Every figure, in the order in which they are made and shown."""

__all__ = ["FIGURES", "AbstractFigure", "Claim", "Watch"]
