"""Flags made from the fields of the schema: which exist, their help, and the setting they give."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path

from saddlescope.checks import AnyArray
from saddlescope.cli.values import is_array_file, parse_value
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.fields import REQUIRED, Field, as_number, as_text, fields_of
from saddlescope.setting.kinds import find_kind, is_kind, kind_name, kinds_of
from saddlescope.setting.own import load_module
from saddlescope.setting.plain import Plain, build
from saddlescope.setting.toml import load_toml

PARTS = ("task", "model", "method", "init", "record")

# The run that is meant where no flag says otherwise.
_KINDS = {
    "task": "in_context_regression",
    "model": "separate",
    "method": "flow",
    "init": "random",
    "record": "record",
}
_VALUES: dict[str, Plain] = {"spectrum": ".4,.3,.2,.1", "context_length": 31, "heads": 5}

# The marks of a docstring that a terminal does not show.
_MARKS = re.compile(r"[`$]")
_HELP_WIDTH = 96


def split_words(words: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Plain words, and the fields given as --field value."""
    names: list[str] = []
    texts: dict[str, str] = {}
    waiting = iter(words)
    for word in waiting:
        if not word.startswith("--"):
            names.append(word)
            continue
        flag, equals, value = word[2:].partition("=")
        given = value if equals else next(waiting, None)
        if given is None:
            raise InvalidInput(flag, "", "needs a value")
        texts[flag.replace("-", "_")] = given
    return names, texts


def only_fields(words: list[str] | None) -> dict[str, str]:
    """The fields that the words give, where nothing else is allowed."""
    names, texts = split_words(words or [])
    if names:
        raise InvalidInput("words", names[0], "fields are given as --field value")
    return texts


def read_setting(texts: Mapping[str, str], until: float) -> Setting:
    """The setting that flags give, on top of the file that `setting` names, if any.

    `until` is when gradient flow ends by default.
    """
    given = dict(texts)
    values: dict[str, Plain] = {}
    arrays: dict[str, AnyArray] = {}
    if "setting" in given:
        values, arrays = load_toml(Path(given.pop("setting")))
    chosen = {part: given.pop(part, None) for part in PARTS}
    seeds = given.pop("seeds", None)
    kinds = _choose_kinds(chosen, values, given)
    for part, cls in kinds.items():
        known = fields_of(cls)
        parsed = {
            name: parse_value(known[name], given.pop(name)) for name in list(given) if name in known
        }
        if isinstance(parsed.get("spectrum"), int | float):
            parsed["spectrum"] = (parsed["spectrum"],)
        fields = {**_fields_before(values.get(part), cls, parsed), **parsed}
        values[part] = build(part, cls, _completed(known, fields, until), arrays)
    if given:
        name, text = next(iter(given.items()))
        raise InvalidInput(name.replace("_", "-"), text, _allowed(name, kinds))
    if seeds is not None or "seeds" not in values:
        values["seeds"] = fields_of(Setting)["seeds"].parse("1" if seeds is None else seeds)
    return Setting.from_dict(values, arrays)


def _fields_before(before: Plain, cls: type, parsed: Mapping[str, object]) -> dict[str, Plain]:
    """The fields that a file gives a part, where the part is still of that kind."""
    if not isinstance(before, Mapping) or before["kind"] != kind_name(cls):
        return {}
    law = parsed.get("inputs")
    if (
        _holds_samples(before)
        and isinstance(law, str)
        and not parsed.keys() & {"spectrum", "covariance"}
    ):
        raise InvalidInput("inputs", law, "in place of the file's samples needs a spectrum too")
    # A covariance or samples that are given take the place of the file's spectrum.
    gone = {"kind", "spectrum"} if _replaces_spectrum(parsed) else {"kind"}
    return {name: value for name, value in before.items() if name not in gone}


def setting_help(words: Iterable[str]) -> str:
    """Help for the flags of a setting, for the kinds that the words choose."""
    _, texts = split_words([word for word in words if word not in ("--help", "--json")])
    kinds = _choose_kinds({part: texts.pop(part, None) for part in PARTS}, {}, texts)
    lines = [
        "",
        "The setting has five parts. Each is of a kind, and its flags are the fields of that kind:",
    ]
    for part, cls in kinds.items():
        others = [name for name in kinds_of(part) if name != _KINDS[part]]
        choice = f"--{part} KIND, one of {', '.join([_KINDS[part], *others])}"
        lines += ["", *textwrap.wrap(choice, _HELP_WIDTH, subsequent_indent="  ")]
        lines += [f"  {kind_name(cls)}:", *field_lines(cls)]
    lines += [
        "",
        "  --seeds               How many random starts, or which: 6 or 3,7. [1]",
        "  --setting             A setting in a TOML file; other flags change its fields.",
        "",
        "A class of your own is FILE.py:Class, as in --task own_task.py:MyTask. Arrays can be",
        "given as files (.npy, .npz, .csv, .txt).",
    ]
    return "\n".join(lines)


def field_lines(cls: type) -> list[str]:
    """Help for the flags of a class, with their defaults."""
    lines = []
    for field in fields_of(cls).values():
        default = "" if field.default in (REQUIRED, None) else f" [{as_text(field.default)}]"
        text = _MARKS.sub("", field.help) + default
        first, *rest = textwrap.wrap(text, _HELP_WIDTH - 26) or [""]
        lines += [f"    {field.flag:<20}  {first}".rstrip(), *(f"{'':<26}{line}" for line in rest)]
    return lines


def _choose_kinds(
    chosen: Mapping[str, str | None], values: Mapping[str, Plain], given: Mapping[str, str]
) -> dict[str, type]:
    """The class of each part: the one that is named, that of the file, or one that fits."""
    kinds: dict[str, type] = {}
    for part in PARTS:
        name, before = chosen[part], values.get(part)
        if part in values and not (isinstance(before, Mapping) and "kind" in before):
            raise InvalidInput(part, before, "must be a table of fields, with its kind")
        if name is not None:
            kinds[part] = _find(part, name)
        elif isinstance(before, Mapping):
            kinds[part] = find_kind(part, before["kind"], f"{part}.kind")
        else:
            kinds[part] = kinds_of(part)[_KINDS[part]]
    unclaimed = [name for name in given if not any(name in fields_of(c) for c in kinds.values())]
    for part in PARTS:
        if chosen[part] is None and part not in values:
            kinds[part] = _fitting(part, kinds[part], given, unclaimed)
    return kinds


def _fitting(part: str, default: type, given: Mapping[str, str], unclaimed: list[str]) -> type:
    """The default, or the first kind that has the given fields which no default kind has."""
    known = {name for cls in kinds_of(part).values() for name in fields_of(cls)}
    wanted = [name for name in unclaimed if name in known]
    if not wanted:
        return default
    wanted += [name for name in given if name in fields_of(default)]
    for cls in kinds_of(part).values():
        known_here = fields_of(cls)
        if all(n in known_here and _is_meant_for(known_here[n], given[n]) for n in wanted):
            return cls
    return default


def _is_meant_for(field: Field, text: str) -> bool:
    """Whether a text can be meant for a field: a field that is a word takes no number or file."""
    return field.annotation != "str" or not (is_array_file(text) or as_number(text) is not None)


def _find(part: str, name: str) -> type:
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        return _load_class(part, Path(path), attribute)
    if name.endswith(".py"):
        raise InvalidInput(part, name, "must name a class in the file, as FILE.py:Class")
    return find_kind(part, name.replace("-", "_"), part)


def _load_class(part: str, path: Path, name: str) -> type:
    """A class of the user's own, from a file that the user names."""
    cls = getattr(load_module(part, path), name, None)
    if not (isinstance(cls, type) and is_dataclass(cls) and is_kind(cls, part)):
        raise InvalidInput(part, f"{path}:{name}", f"must be a dataclass that can be a {part}")
    return cls


def _completed(
    known: Mapping[str, Field], fields: Mapping[str, Plain], until: float
) -> dict[str, Plain]:
    """The fields, with defaults where a kind needs more than was given."""
    defaults = {**_VALUES, "until": until}
    replaced = _replaces_spectrum(fields)
    if replaced or "x" in known:
        del defaults["spectrum"], defaults["context_length"]
        if "context_length" in known and replaced:
            defaults["context_length"] = _VALUES["context_length"]
    needed = {
        name: value
        for name, value in defaults.items()
        if name in known and known[name].default in (REQUIRED, None)
    }
    return {**needed, **fields}


def _replaces_spectrum(fields: Mapping[str, Plain]) -> bool:
    """Whether the inputs' covariance is given in another way: by a matrix, or by samples."""
    return "covariance" in fields or _holds_samples(fields)


def _holds_samples(fields: Mapping[str, Plain]) -> bool:
    return not isinstance(fields.get("inputs", ""), str)


def _allowed(name: str, kinds: Mapping[str, type]) -> str:
    """What is allowed in place of a flag that no chosen kind has."""
    for part, cls in kinds.items():
        owners = [kind for kind, other in kinds_of(part).items() if name in fields_of(other)]
        if owners:
            flags = ", ".join(field.flag[2:] for field in fields_of(cls).values())
            return f"is for {part} {' or '.join(owners)}; {kind_name(cls)} has {flags}"
    every = [field.flag[2:] for cls in kinds.values() for field in fields_of(cls).values()]
    return f"no such option; there are {', '.join([*PARTS[:-1], 'seeds', 'setting', *every])}"
