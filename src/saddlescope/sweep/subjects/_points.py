"""The settings of a plan, each checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from saddlescope.dynamics import Record
from saddlescope.errors import InvalidInput
from saddlescope.running.progress_bar import shown
from saddlescope.setting import Setting
from saddlescope.setting.kinds import is_kind, kinds_of
from saddlescope.setting.nested import flat_fields, replace_fields
from saddlescope.setting.plain import from_plain

if TYPE_CHECKING:
    from saddlescope.sweep.plan import Plan

PARTS = ("model", "task", "method", "init")
"""The parts of a setting whose fields can be swept."""


class Points:
    """Makes the settings of a plan; shared parts are made once."""

    def __init__(self, base: Setting, record: Record, plan: Plan) -> None:
        self._base, self._record, self._plan = base, record, plan
        self._made: dict[tuple[object, ...], object] = {}
        fields = {part: set(flat_fields(getattr(base, part))) for part in PARTS}
        for part in PARTS:
            for value in (plan.crossed | plan.shared).get(part, ()):
                fields[part] |= set(flat_fields(self._read(part, value)))
        self._owned = {
            part: [name for name in plan.axes if name == part or name in fields[part]]
            for part in PARTS
        }

    def make(self) -> list[Setting]:
        """All settings, in order."""
        return [self._setting(choice) for choice in shown(list(self._plan.choices()), "checking")]

    def _setting(self, choice: dict[str, int]) -> Setting:
        plan = self._plan
        try:
            parts = {part: self._part(part, choice) for part in PARTS}
            seeds = plan.seeds or (plan.value("seeds", choice["seeds"]),)
            return Setting(record=self._record, seeds=seeds, **parts)  # type: ignore[arg-type]
        except InvalidInput as wrong:
            raise plan.located(wrong, choice) from None

    def _part(self, part: str, choice: dict[str, int]) -> object:
        names = self._owned[part]
        key = (part, *(choice[name] for name in names))
        if key not in self._made:
            changes = {name: self._plan.value(name, choice[name]) for name in names}
            base = self._read(part, changes.pop(part, getattr(self._base, part)))
            self._made[key] = replace_fields(base, changes) if changes else base
        return self._made[key]

    @staticmethod
    def _read(part: str, value: object) -> object:
        made = from_plain(part, value, {}, part) if isinstance(value, Mapping) else value
        if not is_kind(type(made), part):
            kinds = ", ".join(kinds_of(part))
            raise InvalidInput(f"axes.{part}", value, f"must be a table with a kind: {kinds}")
        return made
