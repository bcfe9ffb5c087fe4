"""A part of a figure's setting, where the figure needs one of a certain kind."""

from __future__ import annotations

from typing import TypeVar

from saddlescope.errors import InvalidInput

Kind = TypeVar("Kind")


def of_kind(kind: type[Kind], part: object) -> Kind:
    """The part itself; refused if it is of another kind.

    >>> of_kind(str, "a part")
    'a part'
    """
    if not isinstance(part, kind):
        raise InvalidInput("setting", part, f"must hold a part of kind {kind.__name__} here")
    return part
