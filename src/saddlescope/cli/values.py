"""The value of a field from a text at the command line: an array file, named numbers, or plain."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import Field

_ARRAY_FILES = (".npy", ".npz", ".csv", ".txt")
_ONE_ARRAY = "must hold one array of real numbers"


def parse_value(field: Field, text: str) -> object:
    """The value that a text gives a field: arrays from a file, named numbers, or by its type."""
    if "Mapping" in field.annotation:
        if text.endswith(".npz"):
            return _read_arrays(field, Path(text))
        return _named_numbers(field, text)
    if is_array_file(text) and "str" not in re.findall(r"\w+", field.annotation):
        return _read_array(field, Path(text))
    return field.parse(text)


def is_array_file(text: str) -> bool:
    """Whether a text names a file of arrays.

    >>> is_array_file("covariance.npy"), is_array_file(".4,.3")
    (True, False)
    """
    return Path(text).suffix in _ARRAY_FILES


def _named_numbers(field: Field, text: str) -> dict[str, object]:
    inner = Field(field.name, "float", 0.0, "")
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and value for name, _, value in pairs):
        raise InvalidInput(field.flag[2:], text, "must be name=number,… or a file of arrays, .npz")
    return {name: inner.parse(value) for name, _, value in pairs}


def _read_array(field: Field, path: Path) -> AnyArray:
    if path.suffix == ".npz":
        arrays = list(_read_arrays(field, path).values())
        array = arrays[0] if len(arrays) == 1 else np.empty(0)
    else:
        array = _read_numbers(field, path)
    if array.size == 0 or array.dtype.kind not in "buif":
        raise InvalidInput(field.flag[2:], str(path), _ONE_ARRAY)
    return array


def _read_numbers(field: Field, path: Path) -> AnyArray:
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        with warnings.catch_warnings():
            # NumPy warns about an empty file, which is refused like any other without numbers.
            warnings.simplefilter("ignore")
            return np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=1)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InvalidInput(field.flag[2:], str(path), f"cannot be read: {reason}") from None
    except (ValueError, EOFError):
        raise InvalidInput(field.flag[2:], str(path), _ONE_ARRAY) from None


def _read_arrays(field: Field, path: Path) -> dict[str, AnyArray]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InvalidInput(field.flag[2:], str(path), f"cannot be read: {reason}") from None
    except Exception:
        # Which exception a damaged archive raises depends on where the damage is.
        raise InvalidInput(
            field.flag[2:], str(path), "is no archive of arrays, or damaged"
        ) from None
