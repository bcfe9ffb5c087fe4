"""The axes of a sweep: lists, ranges, zipped and random values of a field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from saddlescope.checks import listed, number, seed_labels, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import as_text
from saddlescope.setting.plain import Plain, to_plain

MOST_VALUES = 10_000_000


@dataclass(frozen=True)
class Values:
    """The values of a field, in order.

    `shared` values are not a dimension: the first values of all such fields make the first point,
    the second values the second point, and so on.
    """

    values: tuple[object, ...]
    shared: bool = False


@dataclass(frozen=True)
class Draws:
    """Random values of a field, one per point: `law` from `low` to `high`."""

    law: str
    low: float
    high: float

    def draw(self, count: int, generator: np.random.Generator) -> tuple[object, ...]:
        """Draw `count` values."""
        if self.law == "integers":
            return tuple(generator.integers(int(self.low), int(self.high) + 1, count).tolist())
        if self.law == "uniform":
            return tuple(generator.uniform(self.low, self.high, count).tolist())
        drawn = generator.uniform(math.log(self.low), math.log(self.high), count)
        return tuple(np.exp(drawn).tolist())


def linear_range(first: object, last: object, count: object) -> Values:
    """`count` values from `first` to `last`, evenly spaced.

    >>> linear_range(8, 32, 4).values
    (8, 16, 24, 32)
    """
    low, high, points = number("range", first), number("range", last), _count("range", count)
    _check_span("range", low, high)
    values = np.linspace(low, high, points)
    whole = isinstance(first, int) and isinstance(last, int) and (values == values.round()).all()
    return Values(tuple(map(int if whole else float, values.tolist())))


def log_range(first: object, last: object, count: object) -> Values:
    """`count` values from `first` to `last`, evenly spaced in the logarithm.

    >>> log_range(.001, 1, 4).values
    (0.001, 0.01, 0.1, 1.0)
    """
    low, high = (number("log_range", end, above=0.0) for end in (first, last))
    points = _count("log_range", count)
    steps = np.linspace(math.log10(low), math.log10(high), points)
    # Fifteen digits, so that .001 is exactly .001.
    return Values(tuple(float(f"{value:.15g}") for value in 10**steps))


def zipped(values: Iterable[object]) -> Values:
    """Values that share the dimension `point` with those of other zipped or random fields.

    `values` has one entry per point.

    >>> zipped([1, 2]).shared
    True
    """
    return Values(_listed("zipped", values), shared=True)


def uniform(low: object, high: object) -> Draws:
    """A random value from `low` to `high` per point.

    >>> uniform(0, 1).law
    'uniform'
    """
    return Draws("uniform", *_ends("uniform", low, high))


def log_uniform(low: object, high: object) -> Draws:
    """A random value from `low` to `high` per point, uniform in the logarithm.

    >>> log_uniform(.01, 1).low
    0.01
    """
    number("log_uniform", low, above=0.0)
    return Draws("log_uniform", *_ends("log_uniform", low, high))


def integers(low: object, high: object) -> Draws:
    """A random whole number from `low` to `high`, both included, per point.

    >>> integers(1, 8).high
    8
    """
    least = whole_number("integers", low, at_least=0)
    return Draws("integers", least, whole_number("integers", high, at_least=least))


_RANGES = {"range": linear_range, "log_range": log_range}
_LAWS = {"uniform": uniform, "log_uniform": log_uniform, "integers": integers}


def make_axis(name: str, value: object) -> Values | Draws:
    """The axis for a value from Python or from a file."""
    try:
        if isinstance(value, Values | Draws):
            return value
        if isinstance(value, Mapping):
            return _read(value)
        if name == "seeds" and isinstance(value, int | np.integer):
            return Values(seed_labels(value))
        return Values(_listed(name, value))
    except InvalidInput as wrong:
        raise InvalidInput(f"axes.{name}", wrong.value, wrong.allowed) from None


def axis_to_plain(axis: Values | Draws) -> Plain:
    """As in a file (the inverse of `make_axis`)."""
    if isinstance(axis, Draws):
        return {axis.law: [axis.low, axis.high]}
    values = [to_plain(value, {}) for value in axis.values]
    return {"zipped": values} if axis.shared else values


def label(value: object) -> float | int | str:
    """The label of a value on a coordinate: a number, or a text for anything else.

    >>> label(4), label([.4, .3]), label({"kind": "merged", "heads": 8})
    (4, '0.4,0.3', 'merged heads=8')
    """
    plain = to_plain(value, {})
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return plain
    if isinstance(plain, Mapping):
        rest = [f"{name}={as_text(own)}" for name, own in plain.items() if name != "kind"]
        return " ".join([str(plain.get("kind", "")), *rest]).strip()
    return as_text(plain)


def _read(value: Mapping[str, object]) -> Values | Draws:
    if len(value) == 1:
        ((word, given),) = value.items()
        if word == "zipped":
            return zipped(given)  # type: ignore[arg-type]
        if word in (*_RANGES, *_LAWS) and isinstance(given, list | tuple):
            wanted = 3 if word in _RANGES else 2
            if len(given) != wanted:
                raise InvalidInput(word, given, f"{word} takes {wanted} numbers")
            return _RANGES[word](*given) if word in _RANGES else _LAWS[word](*given)
    known = ", ".join(("zipped", *_RANGES, *_LAWS))
    raise InvalidInput("axis", dict(value), f"must be a list, or a table with one of {known}")


def _listed(name: str, values: object) -> tuple[object, ...]:
    items = listed(name, values, "must be a list of values", MOST_VALUES)
    if isinstance(values, np.ndarray):
        items = values.tolist()
    if not items:
        raise InvalidInput(name, values, "must hold at least one value")
    for value in items:
        if not isinstance(value, int | float | str):
            # Raises for what cannot be written to a file.
            to_plain(value, {})
    return tuple(items)


def _count(name: str, count: object) -> int:
    return whole_number(name, count, at_least=1, at_most=MOST_VALUES)


def _ends(name: str, low: object, high: object) -> tuple[float, float]:
    least, most = number(name, low), number(name, high)
    if most < least:
        raise InvalidInput(name, (low, high), "must go from low to high")
    _check_span(name, least, most)
    return least, most


def _check_span(name: str, low: float, high: float) -> None:
    if not math.isfinite(high - low):
        raise InvalidInput(name, (low, high), "is too wide a range")
