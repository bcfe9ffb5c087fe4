"""How shapes and types are checked while tests run."""

from collections.abc import Callable
from typing import Any, TypeVar

from beartype import BeartypeConf, beartype

T = TypeVar("T", bound=Callable[..., Any])

# An int is a float here, as it is for mypy.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: T) -> T:
    """Let beartype check a function that jaxtyping made in place of one of ours.

    It makes two: one takes the arguments before ours is called, the other takes them again with the
    result, to return it. The letters of the shapes are known by then: there the result is checked
    alone.
    """
    hints = function.__annotations__
    if hints.get("return", Any) is not Any:
        function.__annotations__ = dict.fromkeys(hints, Any) | {"return": hints["return"]}
    return _check(function)
