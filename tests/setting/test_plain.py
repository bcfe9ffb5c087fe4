"""Values as plain ones and back."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.dynamics import GradientFlow
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.plain import (
    FORMAT,
    build,
    check_format,
    describe,
    digest,
    from_plain,
    read,
    to_plain,
)
from saddlescope.task import InContextRegression, Spectrum

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
PLAIN = Setting(SeparateAttention(5, 1), TASK, GradientFlow(until=20_000), seeds=3)


def test_large_arrays_are_named_by_their_digest() -> None:
    task = TASK.sample(30)
    setting = PLAIN.replace(task=task)
    arrays: dict[str, Any] = {}
    values = setting.to_dict(arrays)
    name = values["task"]["x"]["array"]
    assert values["task"]["x"]["shape"] == [30, 32, 4]
    np.testing.assert_array_equal(arrays[name], task.x)
    assert values["task"]["lengths"] == [31.0] * 30
    np.testing.assert_array_equal(Setting.from_dict(values, arrays).task.x, task.x)
    with pytest.raises(InvalidInput, match=r"task\.x = .*data that is not at hand"):
        Setting.from_dict(values)


def test_the_format_may_be_left_out() -> None:
    values = PLAIN.to_dict()
    del values["format"]
    assert Setting.from_dict(values) == PLAIN


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (np.int32(3), 3),
        (np.float32(0.5), 0.5),
        ("text", "text"),
        ((1, (2.5, None)), [1, [2.5, None]]),
        ({"a": np.arange(3)}, {"a": [0, 1, 2]}),
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (Spectrum([0.4, 0.3]), [0.4, 0.3]),
        (
            GradientFlow(3.0),
            {
                "kind": "flow",
                "until": 3.0,
                "rtol": 1e-8,
                "atol": 1e-11,
                "solver": "auto",
                "precision": "float64",
            },
        ),
    ],
    ids=str,
)
def test_values_are_plain_enough_for_json(value: object, plain: Any) -> None:
    found = to_plain(value, {})
    if isinstance(found, dict):
        found = {name: item for name, item in found.items() if item is not None}
    assert json.loads(json.dumps(found)) == plain


def test_what_is_no_dataclass_cannot_be_written_down() -> None:
    with pytest.raises(InvalidInput, match=r"setting = .*holds what cannot be written down"):
        to_plain(object(), {})


def test_arrays_are_written_out_up_to_a_size() -> None:
    arrays: dict[str, Any] = {}
    assert to_plain(np.zeros(64), arrays) == [0.0] * 64
    assert arrays == {}
    named = to_plain(np.zeros((5, 13)), arrays)
    assert isinstance(named, dict)
    assert named["shape"] == [5, 13]
    np.testing.assert_array_equal(from_plain("x", named, arrays), np.zeros((5, 13)))  # type: ignore[arg-type]
    # Another shape of the same numbers is another array.
    assert to_plain(np.zeros((13, 5)), arrays) != named
    assert len(arrays) == 2


def test_a_kind_is_described_and_read() -> None:
    described = describe(MergedAttention(3))
    assert described["format"] == FORMAT
    assert read("model", described) == MergedAttention(3)
    for values in (5, [], {"heads": 3}):
        with pytest.raises(InvalidInput, match=r"model = .*with its kind"):
            read("model", values)
    with pytest.raises(InvalidInput, match=f"format = 1: this version reads format {FORMAT}"):
        read("model", {**described, "format": 1})
    assert check_format({"format": FORMAT, "a": 1}) == {"a": 1}


@dataclass(frozen=True)
class Pair:
    first: int
    second: float = 2.0


def test_an_object_is_built_of_the_fields_that_it_has() -> None:
    assert build("pair", Pair, {"first": 1}, {}) == Pair(1)
    with pytest.raises(InvalidInput, match=r"pair\.first = None: is missing"):
        build("pair", Pair, {"second": 1.0}, {})
    with pytest.raises(
        InvalidInput, match=r"pair\.third = 3: unknown field; allowed: first, second"
    ):
        build("pair", Pair, {"first": 1, "third": 3}, {})


def test_a_digest_does_not_see_the_order_of_fields() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.5})
    assert len(digest(None)) == 16
