"""Colours of a drawing on a light and on a dark page."""

from __future__ import annotations

import re

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.typing import ColorType

from saddlescope.checks import FloatArray
from saddlescope.drawing import THEORY_COLOUR

DARK_PAPER = "#15171b"
INK = "ink"
"""The colour of the page's text, whichever that is."""

# WCAG 2.1, success criterion 1.4.11: curves and marks against what they are drawn on.
_VISIBLE = 3.0
_NEARLY_BLACK = 0.2
_STYLE = re.compile(r'style="([^"]*)"')
_STROKE = re.compile(r"stroke: (#[0-9a-fA-F]{6})")


def page_colour(colour: ColorType | FloatArray) -> str:
    """The colour in hexadecimal; black and the grey of theory are the page's own ink.

    >>> page_colour("black"), page_colour("#0072B2")
    ('ink', '#0072b2')
    """
    rgb = to_rgb(tuple(colour) if isinstance(colour, np.ndarray) else colour)
    own = max(rgb) <= _NEARLY_BLACK or to_hex(rgb) == THEORY_COLOUR.lower()
    return INK if own else to_hex(rgb)


def on_dark(colour: str) -> str:
    """The colour itself, or a lighter one if it would be invisible on a dark page.

    >>> on_dark("#e69f00"), on_dark("#440154")
    ('#e69f00', '#855a90')
    """
    if colour == INK:
        return INK
    rgb, paper = to_rgb(colour), luminance(to_rgb(DARK_PAPER))
    for step in range(21):
        share = step / 20
        red, green, blue = ((1 - share) * part + share for part in rgb)
        lighter = (red, green, blue)
        if (luminance(lighter) + 0.05) / (paper + 0.05) >= _VISIBLE:
            return to_hex(lighter)
    return "#ffffff"


def luminance(rgb: tuple[float, ...]) -> float:
    """Relative luminance of an sRGB colour with parts from 0 to 1 (WCAG 2.1)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def lighten_on_dark(svg: str) -> str:
    """An SVG whose dark strokes, and fills of the same colour, turn lighter on a dark page.

    Areas keep their colours: in a heat map a colour is a value.
    """
    return _STYLE.sub(_two_schemes, svg)


def _two_schemes(match: re.Match[str]) -> str:
    style = match[1]
    stroke = _STROKE.search(style)
    if stroke is None or on_dark(stroke[1]) == stroke[1].lower():
        return match[0]
    # The bare colour stands first, for browsers that do not know light-dark().
    both = f"light-dark({stroke[1]}, {on_dark(stroke[1])})"
    added = [f"{name}: {both}" for name in ("fill", "stroke") if f"{name}: {stroke[1]}" in style]
    return f'style="{style}; {"; ".join(added)}"'
