"""What pages carry with them: scripts, styles and data, none of it asked of a network."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def asset(name: str) -> str:
    """A script or a style of ours, or of uPlot."""
    return (resources.files("saddlescope.report") / "assets" / name).read_text(encoding="utf-8")


def embedded(name: str, values: object) -> str:
    """Plain values inside the page, for its scripts to find by their id."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Nothing in a script may look like the end of it.
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>'
