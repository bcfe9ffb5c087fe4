"""The fields of a kind, read off its constructor: names, defaults, and what its docstring says."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from saddlescope.errors import InvalidInput

REQUIRED = inspect.Parameter.empty
"""The default of a field that has none."""

# "- `name`: what it is" or "- `one`, `two`: what they are", with lines indented further.
_BULLET = re.compile(r"^ *- ((?:`\w+`(?:, )?)+): (.+(?:\n +(?!- ).+)*)", re.MULTILINE)

_KNOWN: dict[type, dict[str, Field]] = {}


@dataclass(frozen=True)
class Field:
    """A field of a kind."""

    name: str
    annotation: str
    """The type as it is written."""
    default: object
    """`REQUIRED` where there is none."""
    help: str
    """What the docstring of the class, or of one that it derives from, says of it."""

    @property
    def flag(self) -> str:
        """The field at the command line.

        >>> Field("init_scale", "float", .01, "").flag
        '--init-scale'
        """
        return "--" + self.name.replace("_", "-")

    def parse(self, text: str) -> object:
        """The value that a text at the command line stands for.

        >>> Field("layers", "tuple[int, ...]", (1, 2), "").parse("1,3")
        (1, 3)
        """
        words = set(re.findall(r"\w+", self.annotation))
        if "None" in words and text.lower() == "none" and "str" not in words:
            return None
        if words & {"tuple", "Sequence", "list"}:
            parts = text.removesuffix(",").split(",")
            return tuple(self._parse_one(word.strip(), words) for word in parts)
        return self._parse_one(text, words)

    def _parse_one(self, text: str, words: set[str]) -> object:
        if "bool" in words:
            if text.lower() not in ("true", "false"):
                raise InvalidInput(self.flag[2:], text, "must be true or false")
            return text.lower() == "true"
        number = as_number(text)
        if number is None and "str" not in words and words & {"int", "float"}:
            whole = "float" not in words
            raise InvalidInput(self.flag[2:], text, f"must be a {'whole ' if whole else ''}number")
        if words & {"int", "float"}:
            return text if number is None else number
        if "object" in words or "ArrayLike" in words:
            return _loose(text)
        return text


def fields_of(cls: type) -> dict[str, Field]:
    """The fields of a class by name, in the order of its constructor."""
    if cls not in _KNOWN:
        _KNOWN[cls] = _read_fields(cls)
    return _KNOWN[cls]


def as_text(value: object) -> str:
    """A plain value of a field as the command line takes it.

    >>> as_text([.4, .3]), as_text([7]), as_text(True)
    ('0.4,0.3', '7,', 'true')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(as_text, value)) + ("," if len(value) == 1 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_fields(cls: type) -> dict[str, Field]:
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for names, text in _BULLET.findall(inspect.cleandoc(base.__dict__.get("__doc__") or "")):
            helps |= dict.fromkeys(re.findall(r"\w+", names), " ".join(text.split()))
    return {
        name: Field(
            name=name,
            annotation=_annotation(cls, name, parameter.annotation),
            default=parameter.default,
            help=helps.get(name, ""),
        )
        for name, parameter in inspect.signature(cls).parameters.items()
    }


def _annotation(cls: type, name: str, annotation: object) -> str:
    """As it is written; of a constructor that takes any object, a flag's is that of the field."""
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    settled = inspect.get_annotations(cls).get(name)
    return "bool" if written == "object" and settled in (bool, "bool") else written


def as_number(text: str) -> int | float | None:
    """The number that a text is, None where it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _loose(text: str) -> object:
    """A number, numbers, or the text itself."""
    numbers = [as_number(word) for word in text.removesuffix(",").split(",")]
    if None in numbers:
        return text
    return numbers[0] if len(numbers) == 1 and not text.endswith(",") else tuple(numbers)
