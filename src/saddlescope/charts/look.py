"""Looks in matplotlib's words, which everybody knows: `"o-"`, `color=`, `linestyle=`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsFloat, cast

from matplotlib.colors import is_color_like, to_hex

from saddlescope.charts.layers import Look

MARKERS = {
    "o": "circle", ".": "dot", "s": "square", "D": "diamond", "^": "triangle", "v": "wedge",
    "x": "cross", "+": "plus", "*": "star", "|": "upright", "_": "flat",
}  # fmt: skip
"""The marks that there are, by matplotlib's letter."""

# As multiples of the line's width.
_DASHES: dict[str, tuple[float, ...]] = {
    "-": (),
    "--": (3.7, 1.6),
    "-.": (6.4, 1.6, 1.0, 1.6),
    ":": (1.0, 1.65),
}
_NONE = ("none", "None", "", " ")
_LINE_WIDTH, _MARK_SIZE = 1.4, 6.0
_INK = "black"


def read_look(style: str, options: dict[str, object]) -> Look:
    """The look that a style and options name; other options are left in the dictionary.

    >>> options = {"color": "black", "linewidth": 2, "label": "training"}
    >>> read_look("s--", options), options
    (Look(colour='#000000', width=2.0, dash=(3.7, 1.6), marker='square', size=6.0, filled=True, \
edge='', alpha=1.0), {'label': 'training'})
    """
    letter, line = _parts(style)
    marker = str(options.pop("marker", letter))
    if style and not line:
        line = "none"
    sign = options.pop("linestyle", line or "-")
    colour = hex_colour(options.pop("color", _INK))
    width = _number(options, "linewidth", _LINE_WIDTH)
    size = _number(options, "markersize", _MARK_SIZE)
    face = options.pop("markerfacecolor", None)
    edge = options.pop("markeredgecolor", None)
    if marker and marker not in MARKERS:
        raise ValueError(f"marker = {marker!r}: must be one of {' '.join(MARKERS)}")
    drawn = sign not in _NONE
    return Look(
        colour if face in (None, "none") else hex_colour(face),
        width if drawn else 0.0,
        _dashes(sign) if drawn else (),
        MARKERS[marker] if marker else "",
        size if marker else 0.0,
        face != "none",
        "" if edge is None else hex_colour(edge),
        _number(options, "alpha", 1.0),
    )


def area_look(options: dict[str, object]) -> Look:
    """The look of an area: a colour and an opacity."""
    options.pop("linewidth", None)
    return Look(hex_colour(options.pop("color", _INK)), alpha=_number(options, "alpha", 1.0))


def hex_colour(colour: object) -> str:
    """A colour in hexadecimal.

    >>> hex_colour("0.6"), hex_colour("black")
    ('#999999', '#000000')
    """
    if not is_color_like(colour):
        raise ValueError(f"color = {colour!r}: is no colour")
    return to_hex(cast(str, colour))


def refuse(options: Mapping[str, object]) -> None:
    """Refuse unknown options, so that none is ignored silently."""
    if options:
        raise TypeError(f"a panel has no option {', '.join(sorted(options))}")


def _parts(style: str) -> tuple[str, str]:
    """The marker and the line of a style such as "o--"."""
    letter = style[:1] if style[:1] in MARKERS else ""
    line = style[len(letter) :]
    if line and line not in _DASHES:
        raise ValueError(f"style = {style!r}: must be a mark, a line, or both, such as 'o--'")
    return letter, line


def _dashes(sign: object) -> tuple[float, ...]:
    if isinstance(sign, tuple):
        _, lengths = sign
        return tuple(float(length) for length in lengths)
    if sign not in _DASHES:
        raise ValueError(
            f"linestyle = {sign!r}: must be one of {' '.join(_DASHES)}, or (0, lengths)"
        )
    return _DASHES[str(sign)]


def _number(options: dict[str, object], name: str, default: float) -> float:
    return float(cast(SupportsFloat, options.pop(name, default)))
