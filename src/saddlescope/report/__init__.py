"""The static page: the only page builder."""

from saddlescope.report.page import Section, figure, paragraphs, table, write_page
from saddlescope.report.run_page import write_run_page

__all__ = ["Section", "figure", "paragraphs", "table", "write_page", "write_run_page"]
