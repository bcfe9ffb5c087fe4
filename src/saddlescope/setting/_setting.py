"""`Setting`: one run as one object, the schema of files, plans, addresses and cache keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from saddlescope.checks import AnyArray, FloatArray, seed_labels
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import fields_of
from saddlescope.setting.kinds import check_part, kind, kinds_of, part
from saddlescope.setting.nested import replace_fields
from saddlescope.setting.plain import (
    FORMAT,
    Plain,
    check_fields,
    check_format,
    digest,
    from_plain,
    to_plain,
)

if TYPE_CHECKING:
    from saddlescope.attention import AbstractAttention, AbstractStart
    from saddlescope.dynamics import AbstractMethod, Record
    from saddlescope.task import AbstractData

PARTS = ("model", "task", "method", "init", "record")


@part("setting")
@kind("setting", "setting")
@dataclass(frozen=True, eq=False, init=False)
class Setting:
    """Everything that a run depends on.

    `model`, `task`, `method`, `init` and `record` are the objects that `train` takes; without them
    the start is the papers' random one and the record a thousand points. `seeds` are the seeds of
    the ensemble: how many, or which. Two settings are equal when their digests are.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> setting = Setting(ss.SeparateAttention(heads=3), task, ss.GradientFlow(until=100))
    >>> setting.replace(heads=5, init_scale=.1).model
    SeparateAttention(heads=5, rank=1, normalisation='context', blocks='reduced', ...)
    """

    model: AbstractAttention
    task: AbstractData
    method: AbstractMethod
    init: AbstractStart
    record: Record
    seeds: tuple[int, ...]

    def __init__(
        self,
        model: AbstractAttention,
        task: AbstractData,
        method: AbstractMethod,
        init: AbstractStart | None = None,
        record: Record | None = None,
        seeds: object = 1,
    ) -> None:
        given = {"model": model, "task": task, "method": method, "init": init, "record": record}
        for name, default in (("init", "random"), ("record", "record")):
            if given[name] is None:
                given[name] = kinds_of(name)[default]()
        for name, value in given.items():
            check_part(name, value)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "seeds", seed_labels(seeds))
        # A start that does not fit the model and the task is found here, before anything runs.
        self.init.check(self.model, self.task, self.seeds)

    def written(self) -> dict[str, object]:
        """The fields, seeds from 0 on by their number."""
        count = len(self.seeds)
        seeds = count if self.seeds == tuple(range(count)) else self.seeds
        return {**{name: getattr(self, name) for name in PARTS}, "seeds": seeds}

    def to_dict(self, arrays: dict[str, AnyArray] | None = None) -> dict[str, Plain]:
        """The setting as plain values; large arrays go into `arrays` under their digest."""
        held = {} if arrays is None else arrays
        fields = {name: to_plain(value, held) for name, value in self.written().items()}
        return {"format": FORMAT, **fields}

    @classmethod
    def from_dict(cls, values: object, arrays: Mapping[str, FloatArray] | None = None) -> Setting:
        """Build and validate a setting from plain values (the inverse of `to_dict`)."""
        if not isinstance(values, Mapping):
            raise InvalidInput("setting", values, "must be a mapping of fields to values")
        given = check_format(values)
        check_fields("setting", given, fields_of(cls), ["model", "task", "method"])
        built = {
            name: from_plain(name, value, arrays or {}, name if name in PARTS else "value")
            for name, value in given.items()
        }
        return cls(**built)  # type: ignore[arg-type]

    @cached_property
    def without_start(self) -> Setting:
        """The setting with the default start: equal for settings that differ in nothing else."""
        return Setting(self.model, self.task, self.method, record=self.record, seeds=self.seeds)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the setting."""
        return digest(self.to_dict())

    def replace(self, **changes: object) -> Setting:
        """A copy with other values of some fields, its own or those of its parts.

        The fields of a part, such as `heads` or `until`, depend on its kind.
        """
        return replace_fields(self, changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
