"""The look of all pictures: colours, a figure without pyplot, legends, SVG."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish; their order alternates in
# lightness, so that neighbours differ in grey as well.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
THEORY_COLOUR = "#555555"
STYLE: dict[Any, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "saddlescope",
}
# The figure's own patch is the first that is drawn.
_PAPER = re.compile(r'(<g id="patch_1">\s*<path d="[^"]*"\s*style="fill: )#ffffff')
# Above the axes, where no curve can run into it.
LEGEND: dict[str, Any] = {
    "fontsize": 7.5,
    "loc": "lower left",
    "bbox_to_anchor": (-0.02, 1.0),
    "handlelength": 1.3,
    "handletextpad": 0.4,
    "columnspacing": 0.9,
}


class Drawing(Figure):
    """A figure that shows itself in a notebook, without pyplot and its global state."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def to_svg(figure: Figure) -> str:
    """A figure as an SVG element, its black replaced by the colour of the text around it."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return inline_svg(buffer.getvalue())


def inline_svg(text: str) -> str:
    """The SVG of a file as an element of a page: no background, its black the text colour."""
    text = _PAPER.sub(r"\1none", text, count=1)
    for ink in ("#000000", THEORY_COLOUR):
        text = text.replace(ink, "currentColor").replace(ink.lower(), "currentColor")
    # Text inherits the colour of the element around it.
    return text[text.index("<svg") :].replace("<svg ", '<svg fill="currentColor" ', 1)


def legend(axes: Axes, columns: int = 3) -> None:
    """A legend above the axes, where no curve can run into it."""
    axes.legend(ncols=columns, **LEGEND)
