"""The directive that shows the gallery: a card for every figure, from its record."""

import inspect
import json
import os
from pathlib import Path
from typing import Any

from sphinx.util.docutils import SphinxDirective

from saddlescope.figures import FIGURES, AbstractFigure

from .record import RECORDED, thumbnail_of


class FigureGallery(SphinxDirective):
    """Every figure: thumbnail, sentence, verdict, command and code."""

    def run(self) -> list[Any]:
        self.env.note_dependency(str(RECORDED))
        entries = json.loads(RECORDED.read_text("utf-8"))
        docs = Path(str(self.env.srcdir)).resolve()
        lines = [".. container:: gallery", ""]
        labels = self.env.domains.standard_domain
        for kind in FIGURES:
            lines += [f"   {line}" for line in _card(kind, entries[kind.id], docs)]
            labels.note_hyperlink_target(f"figure-{kind.id}", self.env.docname, f"figure-{kind.id}")
        return self.parse_text_to_nodes("\n".join(lines))


def _card(kind: type[AbstractFigure], entry: dict[str, Any], docs: Path) -> list[str]:
    """One figure as reStructuredText."""
    sentence = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    code = Path(inspect.getfile(kind)).resolve()
    version = "quick version" if entry["quick"] else "full version"
    return [
        f".. container:: card{'' if _as_expected(entry) else ' unexpected'}",
        f"   :name: figure-{kind.id}",
        "",
        f"   .. image:: /{thumbnail_of(kind.id).resolve().relative_to(docs).as_posix()}",
        f"      :alt: {kind.title}",
        "",
        f"   **{kind.title}**",
        "",
        f"   {sentence.rstrip('.')}. *{kind.source}.*",
        "",
        f"   {verdict(entry)} ({version})",
        "",
        f"   ``{entry['command']}``",
        "",
        f"   :download:`{code.name} <{os.path.relpath(code, docs)}>`",
        "",
    ]


def verdict(entry: dict[str, Any]) -> str:
    """How many claims of a figure hold, in a few words."""
    claims = entry["claims"]
    unexpected = [claim for claim in claims if claim["verdict"] != claim["expected"]]
    if unexpected:
        return f"{len(unexpected)} of {len(claims)} verdicts are not the expected ones"
    failing = sum(claim["verdict"] == "fails" for claim in claims)
    if not failing:
        return f"All {len(claims)} claims hold"
    known = "one is known not to" if failing == 1 else f"{failing} are known not to"
    return f"{len(claims) - failing} of {len(claims)} claims hold; {known}"


def _as_expected(entry: dict[str, Any]) -> bool:
    return all(claim["verdict"] == claim["expected"] for claim in entry["claims"])
