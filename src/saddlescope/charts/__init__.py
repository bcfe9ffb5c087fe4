"""Pictures as data: described once, drawn both by matplotlib and by the page."""

from saddlescope.charts.builder import PanelBuilder
from saddlescope.charts.files import read_sheet, write_sheet
from saddlescope.charts.layers import (
    LAYERS,
    AbstractLayer,
    Band,
    Bars,
    Baseline,
    Curve,
    HeatMap,
    Look,
    Note,
    Rule,
    Span,
)
from saddlescope.charts.look import read_look
from saddlescope.charts.sheet import Axis, ColourBar, Entry, Legend, Panel, Place, Sheet
from saddlescope.charts.sheet_builder import SheetBuilder

__all__ = [
    "LAYERS",
    "AbstractLayer",
    "Axis",
    "Band",
    "Bars",
    "Baseline",
    "ColourBar",
    "Curve",
    "Entry",
    "HeatMap",
    "Legend",
    "Look",
    "Note",
    "Panel",
    "PanelBuilder",
    "Place",
    "Rule",
    "Sheet",
    "SheetBuilder",
    "Span",
    "read_look",
    "read_sheet",
    "write_sheet",
]
