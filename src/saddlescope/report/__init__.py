"""The static page: the only page builder."""

from saddlescope.report.interactive import Panel, panels
from saddlescope.report.page import Section, figure, table, write_page
from saddlescope.report.reproduction_page import write_reproduction_page
from saddlescope.report.run_page import write_run_page
from saddlescope.tables import Cell, paragraphs

__all__ = [
    "Cell",
    "Panel",
    "Section",
    "figure",
    "panels",
    "paragraphs",
    "table",
    "write_page",
    "write_reproduction_page",
    "write_run_page",
]
