"""How the documentation is built; warnings are errors (`make docs`)."""

import os
import re
import sys
from functools import partialmethod
from importlib.metadata import files
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from sphinx.util.docutils import SphinxDirective

import saddlescope

DOCS = Path(__file__).parent

project = "Saddlescope"
author = "The Saddlescope developers"
copyright = author
release = version = installed_version("saddlescope")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
default_role = "code"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Quotes are curled and points joined, but two hyphens stay what they are: an option of a command.
smartquotes_action = "qe"
# Tutorials are executed at every build, each in an empty folder; one that fails fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
# What a command prints arrives in pieces that may end inside a word. nbclient can join them, but
# myst-nb does not ask it to.
NotebookClient.__init__ = partialmethod(NotebookClient.__init__, coalesce_streams=True)
# Their shell commands are those of this environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

# MathJax, copied among the built pages, renders the formulas, so they need no network. It draws
# outlines, so that pages opened from disk need no fonts. Its menu is off, since it would fetch its
# parts one by one.
_MATHJAX = next(file for file in files("sphinx-mathjax-offline") or () if file.name == "tex-svg.js")
mathjax_path = _MATHJAX.name
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "global"}}

html_static_path = ["_static", str(_MATHJAX.locate())]
html_css_files = ["site.css"]
html_theme = "furo"
html_title = "Saddlescope"

# Docstrings are mostly read in terminals and notebooks, so their mathematics is between dollar
# signs and their tags are bare words. Here the mathematics is rendered and the tags become links.
_TAGS = re.findall(r"^\(t(\d+)\)=", (DOCS / "theory.md").read_text("utf-8"), re.MULTILINE)
_DOCSTRING_PARTS = re.compile(
    rf"""
      (?P<code>``.+?``|`[^`]+`_?)
    | \$\$(?P<display>.+?)\$\$
    | \$(?P<inline>[^$]+?)\$
    | \bT(?P<tag>{"|".join(_TAGS)})\b
    """,
    re.VERBOSE | re.DOTALL,
)


def _set_part(match: re.Match[str]) -> str:
    if match["code"]:
        return match["code"]
    if match["display"]:
        return ":math:`" + r"\displaystyle " + " ".join(match["display"].split()) + "`"
    if match["inline"]:
        return ":math:`" + " ".join(match["inline"].split()) + "`"
    return f":ref:`T{match['tag']} <t{match['tag']}>`"


def _set_docstring(
    app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]
) -> None:
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(
        text if ">>>" in text else _DOCSTRING_PARTS.sub(_set_part, text) for text in paragraphs
    ).split("\n")


def _link_index(app: Any, name: str, source: list[str]) -> None:
    """Link the functions and figures of the papers' index to the reference and the gallery."""
    if name == "papers":
        source[0] = re.sub(r"^\|.+\|$", _link_row, source[0], flags=re.MULTILINE)


def _link_row(match: re.Match[str]) -> str:
    *before, function, figure, test, end = match[0].split("|")
    function = re.sub(r"`([\w.]+)`", _link_function, function)
    figure = re.sub(r"`([\w-]+)`", r"{ref}`\1 <figure-\1>`", figure)
    return "|".join([*before, function, figure, test, end])


def _link_function(match: re.Match[str]) -> str:
    first = match[1].partition(".")[0]
    module = getattr(getattr(saddlescope, first), "__module__", "saddlescope")
    # A headline name is documented in the package that exports it, not in the file that defines it.
    target = ".".join([*module.split(".")[:2], match[1]])
    return f"{{py:obj}}`{match[1]} <{target}>`"


class FigureTable(SphinxDirective):
    """Every figure, from the list that the command line uses."""

    def run(self) -> list[Any]:
        from saddlescope.figures import FIGURES

        lines = [".. list-table::", "   :header-rows: 1", "", "   * - figure", "     - title"]
        lines.append("     - source")
        for kind in FIGURES:
            lines += [f"   * - ``{kind.id}``", f"     - {kind.title}", f"     - {kind.source}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> None:
    sys.path.insert(0, str(DOCS))
    from gallery.page import FigureGallery

    app.add_directive("figure-gallery", FigureGallery)
    app.add_directive("figure-table", FigureTable)
    app.connect("autodoc-process-docstring", _set_docstring)
    app.connect("source-read", _link_index)
