"""What can be swept: settings of linear attention, and experiments with transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.plain import FORMAT, from_plain
from saddlescope.sweep.subjects.base import (
    NAMED_TWICE,
    REASON,
    STATUS,
    AbstractSubject,
    Column,
    Measure,
    Outcome,
    Status,
)

__all__ = [
    "NAMED_TWICE",
    "REASON",
    "STATUS",
    "AbstractSubject",
    "Column",
    "Measure",
    "Outcome",
    "Status",
    "make_subject",
    "read_base",
]


def make_subject(base: object, keep: Sequence[str | Measure]) -> AbstractSubject:
    """The subject of a base."""
    if isinstance(base, Setting):
        from saddlescope.sweep.subjects.runs import Runs

        return Runs(base, keep)
    from saddlescope.sweep.subjects.experiments import Experiments
    from saddlescope.transformer._experiment import AbstractExperiment

    if isinstance(base, AbstractExperiment):
        return Experiments(base, keep)
    raise InvalidInput("base", base, "must be a Setting, or an experiment with transformers")


def read_base(values: object) -> object:
    """The base from the table of a plan: a setting, or an experiment where it has a kind."""
    if not isinstance(values, Mapping):
        raise InvalidInput("base", values, "must be a table: model, task and method, or a kind")
    given = {name: value for name, value in values.items() if name != "format"}
    if "kind" in given:
        return from_plain("base", given, {}, "experiment")
    try:
        return Setting.from_dict({"format": FORMAT, **given})
    except InvalidInput as wrong:
        field = f"base.{wrong.field.removeprefix('setting.')}"
        raise InvalidInput(field, wrong.value, wrong.allowed) from None
