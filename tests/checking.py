"""How shapes and types are checked while tests run: once for every kind of call.

A check looks at the types, shapes and dtypes of arguments and result, and at nothing else. Loops
call one function many thousand times with the same ones.
"""

import inspect
import threading
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import update_wrapper, wraps
from types import CodeType, FunctionType
from typing import Any, TypeVar

from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

T = TypeVar("T", bound=Callable[..., Any])

# An int is a float here, as it is for mypy.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
# More items are looked at anew every time.
_MANY = 32
_MARK = "__is_checked__"


def checked(function: T) -> T:
    """Check the calls of a function, or what a dataclass is made of."""
    if isinstance(function, type):
        if is_dataclass(function) and not hasattr(function.__init__, _MARK):
            function.__init__ = _checking(function.__init__, _Checks(function.__init__))  # type: ignore[misc]
        return function  # type: ignore[return-value]
    return _checking(function, _checks_of(function))


def _checking(function: T, checks: "_Checks") -> T:
    results_of = checks.results_of

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        given = (_kind(arguments), _kind(options)) if options else _kind(arguments)
        results = results_of.get(given)
        if results is None:
            result = checks.carry_out(function, arguments, options)
            if not checks.looks_inside:
                results_of[given] = {_kind(result)}
            return result
        result = function(*arguments, **options)
        kind = _kind(result)
        if kind not in results:
            checks.carry_out(lambda *arguments, **options: result, arguments, options)
            results.add(kind)
        return result

    setattr(call, _MARK, True)
    return call  # type: ignore[return-value]


class _Checks:
    """The kinds of calls of a function that have passed, and how another one is checked."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.results_of: dict[object, set[object]] = {}
        """The kinds of results, for each kind of arguments."""
        self.looks_inside = any("Tree" in str(hint) for hint in function.__annotations__.values())
        """Whether the parts of values are checked too: then every call is."""
        self._function = function
        self._typed: Callable[..., Any] | None = None
        self._now = threading.local()

    def carry_out(self, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """Check the arguments as those of the function, call another one, check its result."""
        __tracebackhide__ = True
        if self._typed is None:
            self._typed = jaxtyped(self._stand_in(), typechecker=_by_parts)
        self._now.function = function
        return self._typed(*arguments, **options)

    def _stand_in(self) -> Callable[..., Any]:
        """What is annotated as the function is, and calls the one of the moment."""
        now, own = self._now, inspect.unwrap(self._function)

        def call(*arguments: Any, **options: Any) -> Any:
            return now.function(*arguments, **options)

        # Annotations are read where the function stands.
        there = FunctionType(call.__code__, own.__globals__, closure=call.__closure__)  # type: ignore[attr-defined]
        return update_wrapper(there, self._function)


# Of functions within functions too, which are made anew at every call of the outer one.
_known: dict[int, tuple[CodeType, _Checks]] = {}


def _checks_of(function: Any) -> _Checks:
    code = function.__code__
    return _known.setdefault(id(code), (code, _Checks(function)))[1]


def _kind(value: Any) -> object:
    """What a check of a value looks at."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return type(value), dtype, getattr(value, "shape", None)
    if isinstance(value, tuple | list | dict):
        if len(value) > _MANY:
            return object()
        items = value.items() if isinstance(value, dict) else value
        return type(value), tuple(map(_kind, items))
    return value if isinstance(value, str) else type(value)


def _by_parts(function: T) -> T:
    """Let beartype check a function that jaxtyping made in place of one of ours.

    It makes two: one takes the arguments before ours is called, the other takes them again with the
    result, to return it. The letters of the shapes are known by then: there the result is checked
    alone.
    """
    hints = function.__annotations__
    if hints.get("return", Any) is not Any:
        function.__annotations__ = dict.fromkeys(hints, Any) | {"return": hints["return"]}
    return _check(function)
