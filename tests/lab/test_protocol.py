"""Requests and frames."""

import json

import hypothesis
import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import strategies

from saddlescope.checks import AnyArray
from saddlescope.lab._protocol import (
    LONGEST_MESSAGE,
    Kind,
    Malformed,
    read_frame,
    read_request,
    write_frame,
)

GOOD = {"ask": "run", "number": 4, "setting": {"seeds": 1}, "seed": 7}


def test_a_request_is_read() -> None:
    request = read_request(json.dumps(GOOD))
    assert (request.asked, request.number, request.seed) == ("run", 4, 7)
    assert request.setting == {"seeds": 1}
    assert request.shown is None
    assert read_request(json.dumps({**GOOD, "shown": 2})).shown == 2


@pytest.mark.parametrize(
    "message",
    [
        None,
        b"{}",
        "",
        "{",
        "[]",
        "3",
        "null",
        '"run"',
        "[" * 10_000,
        json.dumps({**GOOD, "ask": "delete"}),
        json.dumps({**GOOD, "ask": None}),
        json.dumps({**GOOD, "number": -1}),
        json.dumps({**GOOD, "number": 1.5}),
        json.dumps({**GOOD, "number": True}),
        json.dumps({**GOOD, "number": 2**60}),
        json.dumps({**GOOD, "seed": "0"}),
        json.dumps({**GOOD, "shown": -1}),
        json.dumps({**GOOD, "shown": True}),
        json.dumps({"ask": "run", "number": 1}),
        json.dumps({**GOOD, "setting": "x" * LONGEST_MESSAGE}),
    ],
)
def test_what_no_page_sends_is_malformed(message: str | bytes | None) -> None:
    with pytest.raises(Malformed):
        read_request(message)


@hypothesis.settings(max_examples=40)
@hypothesis.given(strategies.text(max_size=200))
def test_any_text_is_read_or_malformed(text: str) -> None:
    try:
        read_request(text)
    except Malformed:
        return
    raise AssertionError(f"{text!r} was taken for a request")


@hypothesis.given(
    strategies.dictionaries(
        strategies.text(min_size=1, max_size=9),
        arrays_of.arrays(
            strategies.sampled_from([np.float32, np.float64]),
            arrays_of.array_shapes(max_dims=4, max_side=5, min_side=0),
        ),
        max_size=4,
    )
)
def test_a_frame_is_read_back_as_it_was_written(held: dict[str, AnyArray]) -> None:
    frame = write_frame(Kind.RUN, 9, {"share": 0.25}, held)
    header, arrays = read_frame(frame)
    assert (header["kind"], header["number"], header["share"]) == ("run", 9, 0.25)
    assert list(arrays) == list(held)
    for name, array in held.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_arrays_lie_where_a_page_can_look_at_them() -> None:
    held = {"a": np.zeros(3, np.float32), "b": np.ones(2), "c": np.ones(1, np.float32)}
    frame = write_frame(Kind.RUN, 1, {"note": "é"}, held)
    length = int.from_bytes(frame[:4], "little")
    header = json.loads(frame[4 : 4 + length])
    for one in header["arrays"].values():
        assert (4 + length + one["offset"]) % 8 == 0


def test_json_holds_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_frame(Kind.RUN, 1, {"share": float("nan")}, {})
