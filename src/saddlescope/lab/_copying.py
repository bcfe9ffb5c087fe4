"""A setting to take away: as an address, as Python, as a command."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from urllib.parse import quote

from saddlescope.setting import Setting
from saddlescope.setting.fields import as_text, fields_of
from saddlescope.setting.kinds import kind_name
from saddlescope.setting.plain import Plain, to_plain

_PARTS = ("model", "task", "method", "init")


def as_address(setting: Setting) -> str:
    """The setting as the part of an address after `#`: kinds and fields by name.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> as_address(ss.Setting(ss.SeparateAttention(heads=3), task, ss.GradientFlow(until=100)))
    'model=separate&task=in_context_regression&method=flow&heads=3&spectrum=0.4,0.3&...'
    """
    return "&".join(f"{name}={quote(text, safe=',:.')}" for name, text in _texts(setting).items())


def as_command(setting: Setting) -> str:
    """The command that runs the setting.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> as_command(ss.Setting(ss.MergedAttention(heads=3), task, ss.GradientFlow(until=100)))
    'saddlescope train --model merged --task in_context_regression --method flow --heads 3 ...'
    """
    words = [
        word
        for name, text in _texts(setting).items()
        for word in ("--" + name.replace("_", "-"), text)
    ]
    return shlex.join(["saddlescope", "train", *words])


def as_python(setting: Setting) -> str:
    """Code that runs the setting.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> print(as_python(ss.Setting(ss.SeparateAttention(heads=3), task, ss.GradientFlow(100))))
    import saddlescope as ss
    <BLANKLINE>
    task = ss.InContextRegression(spectrum=[0.4, 0.3], context_length=31)
    model = ss.SeparateAttention(heads=3)
    method = ss.GradientFlow(until=100.0)
    run = ss.train(model, task, method=method, init_scale=0.01, seeds=1, record=1000)
    print(run.compare())
    """
    calls = {
        name: f"ss.{type(getattr(setting, name)).__name__}({_arguments(setting, name)})"
        for name in ("task", "model", "method")
    }
    points, spacing = setting.record.points, setting.record.spacing
    record = str(points) if spacing == "linear" else f"ss.Record({points}, {spacing!r})"
    scale = _fields(setting, "init")["init_scale"]
    return "\n".join(
        [
            "import saddlescope as ss",
            "",
            *(f"{name} = {call}" for name, call in calls.items()),
            f"run = ss.train(model, task, method=method, init_scale={scale!r}, "
            f"seeds={_seeds(setting)!r}, record={record})",
            "print(run.compare())",
        ]
    )


def _arguments(setting: Setting, part: str) -> str:
    """The fields of a part that differ from their defaults, as keyword arguments."""
    return ", ".join(f"{name}={value!r}" for name, value in _fields(setting, part).items())


def _fields(setting: Setting, part: str) -> dict[str, Plain]:
    value = getattr(setting, part)
    known = fields_of(type(value))
    written = to_plain(value, {})
    assert isinstance(written, Mapping)
    return {
        name: one
        for name, one in written.items()
        if name in known
        and (one != known[name].default or name == "init_scale")
        # One fixed task is drawn, not written out.
        and name != "tasks"
    }


def _seeds(setting: Setting) -> Plain:
    return to_plain(setting.written()["seeds"], {})


def _texts(setting: Setting) -> dict[str, str]:
    """Kinds and fields as the command line takes them, without those that have their default."""
    kinds = {part: kind_name(type(getattr(setting, part))) for part in _PARTS[:3]}
    chosen: dict[str, Plain] = {}
    for part in _PARTS:
        chosen |= _fields(setting, part)
    record = dataclasses.asdict(setting.record)
    defaults = fields_of(type(setting.record))
    chosen |= {
        name: record[name]
        for name in ("points", "spacing")
        if record[name] != defaults[name].default
    }
    chosen["seeds"] = _seeds(setting)
    return {**kinds, **{name: as_text(value) for name, value in chosen.items()}}
