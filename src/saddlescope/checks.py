"""The checks that constructors share: one kind of mistake, one kind of message."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from saddlescope.errors import InvalidInput

FloatArray = np.ndarray[Any, np.dtype[np.floating[Any]]]
AnyArray = np.ndarray[Any, np.dtype[Any]]

Class = TypeVar("Class", bound=type)
Word = TypeVar("Word", bound=StrEnum)

LARGEST_WHOLE_NUMBER = 2**63 - 1
"""What fits in the arrays and the generators that whole numbers end up in."""

_MOST_SEEDS = 10_000_000
# Truth values, complex numbers, texts and times: NumPy would make some number of each.
_NO_NUMBERS = "bcSUmM"


def validated(cls: Class) -> Class:
    """A dataclass whose `__init__` takes any object; `__post_init__` checks and converts it."""
    annotations = vars(cls)["__init__"].__annotations__
    annotations |= {name: object for name in annotations if name != "return"}
    return cls


def whole_number(
    field: str, value: object, at_least: int = 1, at_most: int = LARGEST_WHOLE_NUMBER
) -> int:
    """A whole number no smaller than `at_least` and no larger than `at_most`."""
    real = _real(value)
    try:
        whole = None if real is None else int(real)
    except (OverflowError, ValueError):
        # Infinity or NaN.
        whole = None
    if whole is None or whole != real or whole < at_least:
        raise InvalidInput(field, value, f"must be a whole number, at least {at_least}")
    if whole > at_most:
        raise InvalidInput(field, value, f"must be a whole number, at most {at_most}")
    return whole


def number(
    field: str, value: object, *, above: float | None = None, at_least: float | None = None
) -> float:
    """A finite number, within the bounds that are given."""
    bound = "" if at_least is None else f", at least {at_least:g}"
    bound = bound if above is None else f" above {above:g}"
    real = _real(value)
    try:
        result = math.nan if real is None else float(real)
    except OverflowError:
        raise InvalidInput(field, value, "must be a number within float64") from None
    low = (above is not None and result <= above) or (at_least is not None and result < at_least)
    if low or not math.isfinite(result):
        raise InvalidInput(field, value, f"must be a finite number{bound}")
    return result


def _real(value: object) -> Any:
    """A real number, also one held by a 0-d array; None for anything else."""
    held: Any = value
    if getattr(held, "ndim", None) == 0 and not isinstance(held, np.ma.MaskedArray):
        # Of NumPy, JAX, torch or xarray.
        held = held.item()
    return None if isinstance(held, bool) or not isinstance(held, Real) else held


def listed(field: str, value: object, allowed: str, most: int | None = None) -> list[Any]:
    """The items of an iterable other than a string or a mapping, no more than `most`."""
    try:
        if isinstance(value, str | bytes | Mapping):
            raise TypeError
        items = list(islice(value, None if most is None else most + 1))  # type: ignore[call-overload]
    except TypeError:
        # 0-d arrays have __iter__, which raises.
        raise InvalidInput(field, value, allowed) from None
    if most is not None and len(items) > most:
        raise InvalidInput(field, reprlib.repr(value), f"must hold at most {most} values")
    return items


def list_seeds(labels: tuple[int, ...]) -> str:
    """A short text for a set of seeds.

    >>> list_seeds((0, 1, 2)), list_seeds((3, 7))
    ('0 to 2', '3, 7')
    """
    if len(labels) > 2 and labels == tuple(range(labels[0], labels[0] + len(labels))):
        return f"{labels[0]} to {labels[-1]}"
    return ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")


def check_share(field: str, value: float | None) -> None:
    """A share below 1, where one is given."""
    if value is not None and value >= 1:
        raise InvalidInput(field, value, "must be a share below 1")


def one_of(field: str, value: object, allowed: tuple[str, ...]) -> str:
    """One of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(field, value, "must be " + " or ".join(repr(word) for word in allowed))
    return value


def word_of(field: str, value: object, words: type[Word]) -> Word:
    """The member of an enumeration with this value."""
    return words(one_of(field, value, tuple(word.value for word in words)))


def seed_labels(seeds: object) -> tuple[int, ...]:
    """The seed labels of a number n, which means 0 to n − 1, or of a sequence.

    >>> seed_labels(3), seed_labels([3, 7])
    ((0, 1, 2), (3, 7))
    """
    try:
        given = as_array(seeds)
    except (TypeError, ValueError):
        raise InvalidInput("seeds", seeds, "must be a number or a sequence of seeds") from None
    if given.ndim > 1:
        raise InvalidInput("seeds", seeds, "must be a number or a sequence of seeds")
    count = len(given) if given.ndim else whole_number("seeds", seeds)
    if count > _MOST_SEEDS:
        raise InvalidInput("seeds", seeds, f"must be at most {_MOST_SEEDS} in one ensemble")
    if not given.ndim:
        return tuple(range(count))
    if given.dtype.kind in "iu" and given.size and given.min() >= 0 and given.max() < 2**63:
        chosen = tuple(given.tolist())
    else:
        chosen = tuple(whole_number("seeds", seed, at_least=0) for seed in given.tolist())
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInput("seeds", seeds, "must hold at least one seed, each once")
    return chosen


def is_single(field: str, value: object) -> bool:
    """Whether a value is a scalar rather than an array."""
    try:
        return np.ndim(value) == 0  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # Lists of different lengths, or too many of them within one another.
        raise InvalidInput(field, value, "must be an array of real numbers") from None


def is_tensor(value: object) -> bool:
    """Whether it is a torch tensor. torch is never imported: where a tensor is given, it is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any) -> AnyArray:
    """A value as NumPy reads it; a torch tensor wherever it is, without its gradient."""
    if is_tensor(value):
        value = value.detach().cpu()
        # NumPy does not know the narrow floats.
        value = (value.double() if value.is_floating_point() else value).numpy()
    return np.asarray(value)


def float_array(field: str, value: object) -> FloatArray:
    """A float64 copy of an array of real numbers, which may be infinite or missing."""
    try:
        given = as_array(value)
        if given.dtype.kind in _NO_NUMBERS or np.ma.is_masked(value):
            raise TypeError
        if given.dtype.kind == "O" and any(item is None for item in given.flat):
            raise TypeError
        return np.array(given, dtype=np.float64)
    except OverflowError:
        raise InvalidInput(field, value, "must hold numbers within float64") from None
    except (TypeError, ValueError):
        raise InvalidInput(field, value, "must be an array of real numbers") from None


def real_array(
    field: str, value: object, shape: tuple[int | None, ...] | None = None
) -> FloatArray:
    """A finite float64 array, of a shape if one is given (None: any length of that axis)."""
    array = float_array(field, value)
    if shape is not None:
        fits = array.ndim == len(shape) and all(
            want is None or want == have for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            wanted = tuple("any" if want is None else want for want in shape)
            shown = "(" + ", ".join(map(str, wanted)) + ("," if len(wanted) == 1 else "") + ")"
            raise InvalidInput(f"{field}.shape", array.shape, f"must be {shown}")
    if not np.isfinite(array).all():
        raise InvalidInput(field, value, "must hold finite numbers only")
    array.setflags(write=False)
    return array
