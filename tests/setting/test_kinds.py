"""Kinds: registered by themselves, found by name, and never imported by a setting."""

import dataclasses
import json
import sys

import numpy as np
import pytest

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.dynamics import GradientFlow
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting._setting import PARTS
from saddlescope.setting.fields import fields_of
from saddlescope.setting.kinds import check_part, find_kind, is_kind, is_part, kind_name, kinds_of
from saddlescope.task import (
    AbstractTask,
    ContextLengths,
    InContextRegression,
    RegressionMoments,
    Spectrum,
    regression_moments,
)

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
PLAIN = Setting(SeparateAttention(5, 1), TASK, GradientFlow(until=20_000), seeds=3)


@dataclasses.dataclass(frozen=True)
class UsersTask(AbstractTask):
    """A task of the user's own: white inputs of one variance."""

    size: int
    variance: float = 1.0

    @property
    def context_length(self) -> ContextLengths:  # type: ignore[override]
        return ContextLengths.make(5)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def common_basis(self) -> np.ndarray:
        return np.eye(self.size)

    def moments(self) -> RegressionMoments:
        covariance = self.variance * np.eye(self.size)
        return regression_moments(covariance, np.eye(self.size), covariance, 0.0, 1 / 5)


def test_a_part_that_is_not_given_names_what_could_be() -> None:
    with pytest.raises(InvalidInput, match=r"method = None: must be given: GradientFlow, "):
        check_part("method", None)


def test_a_users_own_class_comes_back() -> None:
    setting = PLAIN.replace(task=UsersTask(3, 2.0))
    described = setting.to_dict()["task"]
    assert described == {"kind": f"{__name__}:UsersTask", "size": 3, "variance": 2.0}
    again = Setting.from_dict(json.loads(json.dumps(setting.to_dict())))
    assert again.task == UsersTask(3, 2.0)
    assert again == setting
    with pytest.raises(InvalidInput, match=r"task\.colour = 'red': unknown field"):
        Setting.from_dict({**setting.to_dict(), "task": {**described, "colour": "red"}})


@pytest.mark.parametrize(
    "kind",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "antigravity:geohash",
        "saddlescope.setting:Setting",
        "saddlescope.setting:Setting.from_dict",
        "this",
        ":",
        "",
    ],
)
def test_reading_a_setting_imports_and_calls_nothing(kind: str) -> None:
    values = {**PLAIN.to_dict(), "model": {"kind": kind, "command": "true"}}
    before = set(sys.modules)
    with pytest.raises(InvalidInput) as refusal:
        Setting.from_dict(values)
    assert refusal.value.field == "model.kind"
    assert set(sys.modules) == before


@pytest.mark.parametrize("part", PARTS)
def test_every_kind_says_what_its_fields_are(part: str) -> None:
    # They are the flags of the command line, and its help.
    assert kinds_of(part)
    for name, cls in kinds_of(part).items():
        assert dataclasses.is_dataclass(cls)
        assert kind_name(cls) == name
        for field in fields_of(cls).values():
            assert len(field.help) > 3, f"{cls.__name__}.{field.name} has no bullet in a docstring"
        stored = {field.name for field in dataclasses.fields(cls)}
        assert stored <= set(fields_of(cls)), "what is stored can be given"


def test_a_kind_is_found_by_its_name_in_its_part() -> None:
    assert find_kind("model", "merged", "model.kind") is MergedAttention
    assert kind_name(MergedAttention) == "merged"
    with pytest.raises(
        InvalidInput, match=r"task\.kind = 'merged': must be .*in_context_regression"
    ):
        find_kind("task", "merged", "task.kind")
    with pytest.raises(TypeError):
        kinds_of("model")["mine"] = MergedAttention  # type: ignore[index]


def test_a_class_of_ones_own_is_named_by_its_module_and_must_fit_the_part() -> None:
    name = f"{__name__}:UsersTask"
    assert kind_name(UsersTask) == name
    assert find_kind("task", name, "task.kind") is UsersTask
    with pytest.raises(InvalidInput, match=r"model\.kind = .*must be"):
        find_kind("model", name, "model.kind")


def test_what_can_be_a_part_follows_its_interface() -> None:
    assert is_kind(UsersTask, "task")
    assert not is_kind(UsersTask, "model")
    assert is_part(PLAIN)
    assert is_part(PLAIN.model)
    assert not is_part(Spectrum([1.0]))
    check_part("model", PLAIN.model)
    for part, value, wanted in (
        ("model", TASK, "model = .*must be an AbstractAttention"),
        ("task", 3, "task = 3: must be an AbstractData"),
        ("record", 3, "record = 3: must be a Record"),
        ("method", "flow", "method = 'flow': must be an AbstractMethod"),
    ):
        with pytest.raises(InvalidInput, match=wanted):
            check_part(part, value)
