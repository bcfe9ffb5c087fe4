"""A setting as readable TOML, with large arrays beside it in an .npz."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.running.files import replacing, write_text
from saddlescope.setting._setting import Setting
from saddlescope.setting.plain import Plain

# An array of plain values with a line for each, and how wide it may be on one.
_NUMBERS = re.compile(r"\[\n((?: +[^\[\]\n]+,\n)+) *\]")
_WIDEST = 90


def to_toml(setting: Setting, arrays: dict[str, AnyArray] | None = None) -> str:
    """The setting as TOML, empty fields left out; large arrays go into `arrays`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> text = to_toml(Setting(ss.MergedAttention(heads=8), task, ss.GradientFlow(until=100)))
    >>> print(text.split("[method]")[0])
    format = 2
    seeds = 1
    <BLANKLINE>
    [model]
    kind = "merged"
    ...
    """
    import tomli_w

    values = _without_none(setting.to_dict({} if arrays is None else arrays))
    assert isinstance(values, dict)
    # What is no table comes first in TOML.
    flat = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return _NUMBERS.sub(_in_one_line, tomli_w.dumps({**flat, **values}))


def _in_one_line(array: re.Match[str]) -> str:
    numbers = ", ".join(line.strip(" ,") for line in array[1].splitlines())
    return f"[{numbers}]" if len(numbers) <= _WIDEST else array[0]


def save_toml(setting: Setting, path: Path) -> None:
    """Write the setting to a file, and its large arrays, if there are any, beside it."""
    arrays: dict[str, AnyArray] = {}
    text = to_toml(setting, arrays)
    if arrays:
        with replacing(path.with_suffix(".npz")) as beside:
            np.savez(beside, **arrays)  # type: ignore[arg-type]
    write_text(path, text)


def load_toml(path: Path) -> tuple[dict[str, Plain], dict[str, FloatArray]]:
    """The plain data of a setting in a file, and the arrays beside it."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput("setting", str(path), f"cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise InvalidInput("setting", str(path), f"is no TOML: {problem}") from None
    if not values:
        raise InvalidInput("setting", str(path), "is empty")
    return values, _load_arrays(path.with_suffix(".npz"))


def _load_arrays(path: Path) -> dict[str, FloatArray]:
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception:
        # A damaged archive raises whatever its damage makes zip and NumPy run into.
        raise InvalidInput("setting", str(path), "is no archive of arrays, or damaged") from None


def _without_none(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
