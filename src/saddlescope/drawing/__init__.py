"""Pictures of a run: with its prediction, and as a film."""

from saddlescope.drawing.film import animate
from saddlescope.drawing.run import describe, notebook_display, plot
from saddlescope.drawing.sheet import draw_sheet
from saddlescope.drawing.style import (
    COLOURS,
    STYLE,
    THEORY_COLOUR,
    Drawing,
    inline_svg,
    legend,
    to_svg,
)

__all__ = [
    "COLOURS",
    "STYLE",
    "THEORY_COLOUR",
    "Drawing",
    "animate",
    "describe",
    "draw_sheet",
    "inline_svg",
    "legend",
    "notebook_display",
    "plot",
    "to_svg",
]
