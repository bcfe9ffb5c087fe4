"""The fields of a setting and of its parts as one flat list of names."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import optax
import pytest

from saddlescope.attention import MergedAttention, RandomStart, SeparateAttention
from saddlescope.dynamics import GradientFlow, Optimiser
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.nested import flat_fields, flat_plain, replace_fields, replace_texts
from saddlescope.task import AbstractTask, InContextRegression, TaskPool

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
PLAIN = Setting(SeparateAttention(5, 1), TASK, GradientFlow(until=20_000), seeds=3)


def test_fields_of_parts_are_replaced_by_name() -> None:
    other = PLAIN.replace(heads=2, until=10.0, init_scale=0.5, seeds=[4], label_noise=0.1)
    assert other.model == SeparateAttention(2, 1)
    assert other.method == GradientFlow(until=10.0)
    assert other.init == RandomStart(0.5)
    assert other.seeds == (4,)
    assert other.task.label_noise == 0.1
    assert other.record is PLAIN.record
    assert PLAIN.replace(model=MergedAttention(3), heads=4).model == MergedAttention(4)
    with pytest.raises(InvalidInput, match="steps"):
        PLAIN.replace(steps=3)
    with pytest.raises(InvalidInput, match="heads = 0"):
        PLAIN.replace(heads=0)


@pytest.mark.parametrize("task", [TASK, TaskPool([0.6, 0.4], 8, tasks=3)], ids=["law", "pool"])
def test_a_covariance_replaces_a_spectrum(task: AbstractTask) -> None:
    matrix = np.array([[0.5, 0.2], [0.2, 0.4]])
    other = PLAIN.replace(task=task).replace(covariance=matrix)
    np.testing.assert_allclose(other.task.spectrum.matrix, matrix)
    assert other.replace(spectrum=[0.4, 0.3]).task.dimension == 2
    with pytest.raises(InvalidInput, match="give spectrum or covariance"):
        PLAIN.replace(covariance=matrix, spectrum=[0.4, 0.3])


def test_the_fields_of_parts_stand_in_the_parts_place() -> None:
    names = list(flat_fields(PLAIN))
    assert names[:2] == ["heads", "rank"]
    assert {"spectrum", "until", "init_scale", "points", "seeds"} <= set(names)
    assert not {"model", "task", "method", "init", "record"} & set(names)
    values = flat_plain(PLAIN)
    assert values["heads"] == 5
    assert values["spectrum"] == [0.4, 0.3, 0.2, 0.1]
    assert values["seeds"] == 3
    assert flat_plain(PLAIN.replace(seeds=(3, 7)))["seeds"] == [3, 7]
    # What is taken alone to build a task, and not stored, has no value; nor have Gaussian inputs,
    # which go without saying.
    assert set(names) - set(values) == {"covariance", "inputs"}
    assert flat_plain(PLAIN.replace(inputs="laplace"))["inputs"] == "laplace"


def test_large_arrays_go_aside() -> None:
    arrays: dict[str, np.ndarray] = {}
    values = flat_plain(PLAIN.replace(task=TASK.sample(30)), arrays)
    assert isinstance(values["x"], dict)
    assert values["x"]["array"] in arrays


def test_a_part_that_chooses_how_it_is_written_is_asked() -> None:
    made = PLAIN.replace(method=Optimiser(optax.sgd(0.1), steps=3))
    assert flat_plain(made)["optimiser"] is None
    assert flat_plain(made)["label"] == made.method.label


def test_texts_are_read_by_the_type_of_their_field() -> None:
    changed = replace_texts(PLAIN, {"heads": "2", "until": "7.5", "seeds": "3,7"})
    assert changed.model == SeparateAttention(2, 1)
    assert changed.method == GradientFlow(until=7.5)
    assert changed.seeds == (3, 7)
    with pytest.raises(InvalidInput, match="heads = 'two': must be a whole number"):
        replace_texts(PLAIN, {"heads": "two"})
    with pytest.raises(
        InvalidInput, match="learning-rate = '1': is no field here; there are heads"
    ):
        replace_texts(PLAIN, {"learning_rate": "1"})


def test_a_value_without_parts_has_its_own_fields() -> None:
    assert replace_fields(RandomStart(0.1), {"init_scale": 0.2}) == RandomStart(0.2)
    with pytest.raises(InvalidInput, match="scale = 3: is no field here; there are init_scale"):
        replace_fields(RandomStart(0.1), {"scale": 3})


@dataclass(frozen=True)
class _OverScales:
    setting: Setting = field(default_factory=lambda: PLAIN)
    scales: tuple[float, ...] = (0.1, 0.2)
    varied: ClassVar[tuple[str, ...]] = ("init_scale",)


def test_what_a_class_varies_is_nobody_elses() -> None:
    value = _OverScales()
    assert "init_scale" not in flat_fields(value)
    assert "init_scale" not in flat_plain(value)
    assert replace_texts(value, {"heads": "2"}).setting.model == SeparateAttention(2, 1)
    with pytest.raises(InvalidInput, match="init-scale"):
        replace_texts(value, {"init_scale": "0.3"})
