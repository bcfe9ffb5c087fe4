"""Which settings the lab takes, and what it says of others."""

import copy
from typing import Any

import pytest
from tests.lab.talking import SETTING

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.lab._bounds import (
    LARGE,
    SMALL,
    check_setting,
    limits,
    padded_shape,
    read_setting,
)


def changed(part: str, **fields: Any) -> dict[str, Any]:
    values = copy.deepcopy(SETTING)
    if part == "":
        return {**values, **fields}
    values[part] = {**values[part], **fields}
    return values


def test_a_setting_is_read_and_is_that_of_the_schema() -> None:
    assert read_setting(SETTING) == ss.Setting.from_dict(SETTING)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (changed("model", heads=10), "model.heads"),
        (changed("model", heads=2.5), "model.heads"),
        (changed("model", rank=10**9), "model.rank"),
        (changed("model", kind="deep"), "model.kind"),
        (changed("model", kind="tests.lab.talking:Talk"), "model.kind"),
        (changed("model", kind=["separate"]), "model.kind"),
        (changed("model", activation="softmax"), "model.activation"),
        (changed("model", colour=3), "model.colour"),
        (changed("task", spectrum="white:100000000"), "task.spectrum"),
        (changed("task", spectrum=[0.1] * 9), "task.spectrum"),
        (changed("task", spectrum=[0.1, 0.2]), "task.spectrum"),
        (changed("task", spectrum=[0.1, None]), "task.spectrum[1]"),
        (changed("task", spectrum=[]), "task.spectrum"),
        (changed("task", context_length=10**7), "task.context_length"),
        (changed("task", covariance=[[1.0]]), "task.covariance"),
        (changed("task", inputs="secrets.npy"), "task.inputs"),
        (changed("method", steps=10**9), "method.steps"),
        (changed("method", learning_rate=True), "method.learning_rate"),
        (changed("method", learning_rate=10**400), "method.learning_rate"),
        (changed("init", init_scale=0), "init.init_scale"),
        (changed("init", kind="given", weights={}), "init.kind"),
        (changed("record", points=10**6), "record.points"),
        (changed("record", at=[1, 2]), "record.at"),
        (changed("", seeds=10**9), "seeds"),
        (changed("", seeds=list(range(9))), "seeds"),
        (changed("", seeds=[]), "seeds"),
        (changed("", seeds=-1), "seeds"),
        (changed("", observers=[]), "setting.observers"),
        (changed("", model=[]), "model"),
        (changed("", format=99), "format"),
        ([SETTING], "setting"),
        (None, "setting"),
    ],
)
def test_what_the_lab_does_not_take_is_refused_by_its_field(values: object, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_setting(values)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed("model", heads=10), "model.heads = 10: the lab takes 1 to 9"),
        (
            changed("model", heads="abc"),
            "model.heads = 'abc': the lab takes a whole number from 1 to 9",
        ),
        (
            changed("method", steps=1e99),
            "method.steps = 1e+99: the lab takes a whole number from 1 to 1000000",
        ),
        (
            changed("init", init_scale=None),
            "init.init_scale = None: the lab takes a number from 1e-06 to 10",
        ),
    ],
)
def test_a_refusal_says_what_the_lab_takes(values: object, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_setting(values)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"heads": 6}, "model.heads"),
        ({"spectrum": [0.2] * 5}, "task.dimension"),
        ({"steps": 300_000}, "method.steps"),
    ],
)
def test_all_blocks_are_for_the_small_shape(fields: dict[str, object], field: str) -> None:
    task = ss.TaskPool([0.25] * 4, 31, tasks=1, share=0.4)
    model = ss.MergedAttention(heads=5, blocks="full")
    setting = ss.Setting(model, task, ss.GradientDescent(0.1, 100), record=ss.Record(50))
    check_setting(setting)
    changed_setting = (
        setting.replace(**fields)
        if "spectrum" not in fields
        else ss.Setting(
            model,
            ss.TaskPool([0.2] * 5, 31, tasks=1, share=0.4),
            setting.method,
            record=setting.record,
        )
    )
    with pytest.raises(InvalidInput) as refused:
        check_setting(changed_setting)
    assert refused.value.field == field


def test_only_the_fixed_task_that_is_drawn_has_an_address() -> None:
    model = ss.MergedAttention(heads=2, blocks="full")
    other = ss.TaskPool([0.5, 0.5], 31, tasks=[[1.0, 1.0]], share=0.4)
    with pytest.raises(InvalidInput, match=r"task.tasks"):
        check_setting(ss.Setting(model, other, ss.GradientDescent(0.1, 10), record=ss.Record(9)))


def test_data_are_refused() -> None:
    prompts = ss.InContextRegression([0.6, 0.3], 5).sample(40)
    setting = ss.Setting(ss.SeparateAttention(2), prompts, ss.GradientDescent(0.1, 10))
    with pytest.raises(InvalidInput):
        check_setting(setting)


def test_the_smaller_shape_is_taken_where_a_setting_fits() -> None:
    assert padded_shape(read_setting(SETTING)) is SMALL
    assert padded_shape(read_setting(changed("model", heads=6))) is LARGE
    assert padded_shape(read_setting(changed("model", rank=2))) is LARGE
    five = changed("task", spectrum=[0.2] * 5)
    assert padded_shape(read_setting(five)) is LARGE


def test_the_controls_have_the_ranges_that_are_checked() -> None:
    ranges: Any = limits()
    assert ranges["heads"]["high"] == LARGE.heads
    for name, part in (("heads", "model"), ("steps", "method"), ("init_scale", "init")):
        read_setting(changed(part, **{name: ranges[name]["high"]}))
        with pytest.raises(InvalidInput):
            read_setting(changed(part, **{name: ranges[name]["high"] * 2}))
