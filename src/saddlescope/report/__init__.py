"""Static pages of runs, reproductions and observations."""

from saddlescope.report._observation_page import write_observation_page
from saddlescope.report._page import Section, figure, table, write_page
from saddlescope.report._panels import page_panels
from saddlescope.report._reproduction_page import write_reproduction_page
from saddlescope.report._run_page import write_run_page
from saddlescope.tables import Cell, paragraphs

__all__ = [
    "Cell",
    "Section",
    "figure",
    "page_panels",
    "paragraphs",
    "table",
    "write_observation_page",
    "write_page",
    "write_reproduction_page",
    "write_run_page",
]
