"""What pages carry with them: scripts, styles and data, so that none is fetched."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def asset(name: str) -> str:
    """A script or style, ours or uPlot's."""
    return (resources.files("saddlescope.report") / "assets" / name).read_text(encoding="utf-8")


def embedded(name: str, values: object) -> str:
    """Plain values embedded in the page, which its scripts find by id."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Nothing in a script may look like the end of it.
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>'
