"""The one schema: there and back through JSON, named by its digest, and safe to read."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.attention import (
    BalancedStart,
    EigenvectorStart,
    FixedPointStart,
    GivenStart,
    MergedAttention,
    RandomStart,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.dynamics import GradientDescent, GradientFlow, Optimiser, Record
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting._setting import FORMAT
from saddlescope.task import (
    InContextRegression,
    Spectrum,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
PLAIN = Setting(
    task=TASK,
    model=SeparateAttention(5, 1),
    method=GradientFlow(until=20_000),
    init=RandomStart(0.01),
    record=Record(),
    seeds=(0, 1, 2),
)


def changed(**fields: Any) -> Setting:
    return dataclasses.replace(PLAIN, **fields)


def there_and_back(setting: Setting) -> Setting:
    arrays: dict[str, Any] = {}
    text = json.dumps(setting.to_dict(arrays), allow_nan=False)
    return Setting.from_dict(json.loads(text), arrays)


# Strategies draw plain values and the test builds with them: beartype, which checks every call,
# takes items at random, and Hypothesis does not want that while it draws.
scales = st.floats(1e-6, 10.0)
lengths = st.integers(1, 50) | st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


def draw_covariance(draw: Draw, dimension: int) -> Any:
    values = draw(st.lists(st.floats(1e-3, 10.0), min_size=dimension, max_size=dimension))
    if draw(st.booleans()):
        return values
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    return Spectrum(values, np.linalg.qr(random.standard_normal((dimension, dimension)))[0])


def draw_task(draw: Draw) -> Any:
    dimension = draw(st.integers(1, 4))
    spectrum = draw_covariance(draw, dimension)
    task, query = (draw_covariance(draw, dimension) if draw(st.booleans()) else None for _ in "wq")
    law = InContextRegression(spectrum, draw(lengths), task, query, draw(st.floats(0, 2)))
    kind = draw(st.sampled_from(["law", "prompts", "statistics"]))
    return {"law": lambda: law, "prompts": lambda: law.sample(3)}.get(
        kind, lambda: law.statistics(3)
    )()


def draw_model(draw: Draw) -> Any:
    heads = draw(st.integers(1, 4))
    normalisation = draw(st.sampled_from(["context", "none"]))
    kind = draw(st.sampled_from([MergedAttention, SeparateAttention, TwoLayerNetwork]))
    if kind is SeparateAttention:
        return SeparateAttention(heads, draw(st.integers(1, 4)), normalisation)
    return kind(heads, normalisation)


def draw_method(draw: Draw) -> Any:
    converged = draw(st.none() | st.floats(1e-9, 0.5))
    if draw(st.booleans()):
        return GradientDescent(draw(scales), draw(st.integers(1, 10**6)), converged)
    tolerances = draw(st.tuples(st.floats(1e-12, 1e-2), st.floats(1e-14, 1e-2)))
    return GradientFlow(draw(st.floats(1e-3, 1e6)), *tolerances, converged)


def draw_record(draw: Draw) -> Record:
    weights = draw(st.booleans())
    if draw(st.booleans()):
        times = draw(st.lists(st.floats(0, 1e4), min_size=1, max_size=100, unique=True))
        return Record(at=np.array(sorted(times)), weights=weights)
    return Record(
        draw(st.integers(2, 5000)), draw(st.sampled_from(["linear", "log"])), weights=weights
    )


def draw_setting(draw: Draw) -> Setting:
    task, model = draw_task(draw), draw_model(draw)
    start: Any = draw(st.sampled_from([RandomStart, BalancedStart]))(draw(scales))
    if draw(st.booleans()):
        start = GivenStart(start.ensemble(model, task, np.arange(6)))
    seeds = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    return Setting(model, task, draw_method(draw), start, draw_record(draw), tuple(seeds))


@given(st.data())
def test_there_and_back_through_json(data: st.DataObject) -> None:
    setting = draw_setting(data.draw)
    again = there_and_back(setting)
    assert again == setting
    assert again.digest == setting.digest
    assert hash(again) == hash(setting)
    for name, array in setting.init.weights(setting.model, setting.task, setting.seeds[0]).items():
        there = again.init.weights(again.model, again.task, again.seeds[0])[name]
        np.testing.assert_array_equal(there, array)


def test_kinds_and_fields_are_the_schemas() -> None:
    # Plans, addresses and the attributes of saved runs hold exactly this.
    assert PLAIN.to_dict() == {
        "format": 2,
        "task": {
            "kind": "in_context_regression",
            "spectrum": [0.4, 0.3, 0.2, 0.1],
            "context_length": 31,
            "task_covariance": None,
            "query_covariance": None,
            "label_noise": 0.0,
        },
        "model": {
            "kind": "separate",
            "heads": 5,
            "rank": 1,
            "normalisation": "context",
            "blocks": "reduced",
            "activation": "linear",
            "softmax_scale": 1.0,
        },
        "method": {
            "kind": "flow",
            "until": 20000.0,
            "rtol": 1e-8,
            "atol": 1e-11,
            "converged": None,
            "solver": "auto",
            "precision": "float64",
        },
        "init": {"kind": "random", "init_scale": 0.01},
        "record": {
            "kind": "record",
            "points": 1000,
            "spacing": "linear",
            "at": None,
            "weights": True,
            "keep": "trajectory",
        },
        "seeds": 3,
    }


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (changed(method=GradientFlow(10)), changed(method=GradientFlow(10.0))),
        (changed(init=RandomStart(1)), changed(init=RandomStart(1.0))),
        (changed(init=FixedPointStart((0,), 0)), changed(init=FixedPointStart((0,), 0.0))),
        (
            changed(task=InContextRegression([1, 2], 31, label_noise=1)),
            changed(task=InContextRegression(np.array([1.0, 2.0]), "31", label_noise=1.0)),
        ),
        (
            changed(task=InContextRegression("white:2", 31)),
            changed(task=InContextRegression(np.eye(2), [31])),
        ),
        (changed(record=Record.make([1, 2])), changed(record=Record.make([1.0, 2.0]))),
        (
            changed(method=GradientDescent(1, 10)),
            changed(method=GradientDescent(1.0, 10)),
        ),
    ],
)
def test_one_value_has_one_digest(one: Setting, same: Setting) -> None:
    assert one.digest == same.digest
    assert one == same


def test_every_field_has_a_part_in_the_digest() -> None:
    weights = RandomStart().ensemble(PLAIN.model, TASK, np.arange(5))
    moved = {**weights, "v": weights["v"] + np.eye(5)[0] * 1e-12}
    data = TASK.sample(10)
    variants = [
        PLAIN,
        changed(task=InContextRegression([0.4, 0.3, 0.1, 0.2], 31)),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], 32)),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], [31, 32])),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], {31: 0.25, 32: 0.75})),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], 31, "white:4:2")),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], 31, None, "white:4:2")),
        changed(task=InContextRegression([0.4, 0.3, 0.2, 0.1], 31, label_noise=0.1)),
        changed(task=data),
        changed(task=data.statistics()),
        changed(task=TASK.sample(10, seed=1)),
        changed(model=MergedAttention(5)),
        changed(model=TwoLayerNetwork(5)),
        changed(model=SeparateAttention(6, 1)),
        changed(model=SeparateAttention(5, 2)),
        changed(model=SeparateAttention(5, 1, "none")),
        changed(method=GradientFlow(until=20_001)),
        changed(method=GradientFlow(until=20_000, rtol=1e-9)),
        changed(method=GradientFlow(until=20_000, atol=1e-12)),
        changed(method=GradientFlow(until=20_000, converged=1e-6)),
        changed(method=GradientDescent(0.02, 100)),
        changed(method=GradientDescent(0.02, 101)),
        changed(method=GradientDescent(0.03, 100)),
        changed(init=RandomStart(0.02)),
        changed(init=BalancedStart(0.01)),
        changed(init=FixedPointStart((0,))),
        changed(init=FixedPointStart((1,))),
        changed(init=FixedPointStart((1,), 0.01)),
        changed(init=EigenvectorStart(0)),
        changed(init=GivenStart(weights)),
        changed(init=GivenStart(moved)),
        changed(record=Record(points=999)),
        changed(record=Record(spacing="log")),
        changed(record=Record(weights=False)),
        changed(record=Record(at=np.array([1.0]))),
        changed(seeds=(0, 1)),
        changed(seeds=(0, 2, 1)),
    ]
    digests = [setting.digest for setting in variants]
    assert len(set(digests)) == len(variants)
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in digests)


def edited(**fields: Any) -> dict[str, Any]:
    return {**PLAIN.to_dict(), **fields}


def part(name: str, **fields: Any) -> dict[str, Any]:
    return {name: {**PLAIN.to_dict()[name], **fields}}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (edited(colour="red"), "setting.colour"),
        (edited(**part("task", colour="red")), "task.colour"),
        (edited(**part("model", width=3)), "model.width"),
        (edited(**part("method", steps=3)), "method.steps"),
        (edited(format=FORMAT + 1), "format"),
        (edited(format=None), "format"),
        (edited(**part("model", kind="transformer")), "model.kind"),
        (edited(**part("model", kind=None)), "model.kind"),
        (edited(**part("model", kind=["merged"])), "model.kind"),
        (edited(**part("model", heads=0)), "heads"),
        (edited(**part("task", spectrum=[0.4, -0.1])), "spectrum"),
        (edited(**part("task", context_length=0)), "context_length"),
        (edited(**part("method", until=-1.0)), "until"),
        (edited(seeds=[]), "seeds"),
        (edited(seeds=[1, 1]), "seeds"),
        (edited(seeds=[-1]), "seeds"),
        (edited(task=5), "task"),
        (edited(task=None), "task"),
        (edited(model="separate"), "model"),
        (edited(model=PLAIN.to_dict()["method"]), "model.kind"),
        (edited(method=[1]), "method"),
        (edited(method=PLAIN.to_dict()["record"]), "method.kind"),
        (edited(init={"init_scale": 1.0}), "init"),
        (edited(record=[1]), "record"),
    ],
)
def test_a_wrong_part_is_refused_by_name(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Setting.from_dict(values)
    assert refusal.value.field == field
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["task", "model", "method"])
def test_a_missing_part_is_refused_by_name(name: str) -> None:
    values = PLAIN.to_dict()
    del values[name]
    with pytest.raises(InvalidInput, match=rf"setting\.{name} = None: is missing"):
        Setting.from_dict(values)


def test_weights_of_fewer_seeds_than_are_run_are_refused() -> None:
    start = GivenStart(RandomStart().ensemble(PLAIN.model, TASK, np.arange(3)))
    with pytest.raises(InvalidInput, match="seed"):
        changed(init=start, seeds=(2, 3))


def test_a_start_that_does_not_fit_is_found_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match="weights"):
        changed(init=GivenStart({"v": np.ones(5)}))


def test_parts_have_defaults() -> None:
    short = Setting(PLAIN.model, TASK, PLAIN.method, seeds=3)
    assert short == PLAIN


def test_a_digest_is_the_same_in_every_process() -> None:
    hand_made = optax.chain(optax.clip(0.5), optax.adam(1e-3, b1=0.8))
    settings = [PLAIN, changed(method=Optimiser(hand_made, steps=10))]
    code = (
        "import optax, saddlescope as ss\n"
        "task = ss.InContextRegression([.4, .3, .2, .1], 31)\n"
        "hand_made = optax.chain(optax.clip(.5), optax.adam(1e-3, b1=.8))\n"
        "for method in (ss.GradientFlow(20_000), ss.Optimiser(hand_made, steps=10)):\n"
        "    print(ss.Setting(ss.SeparateAttention(5), task, method, seeds=3).digest)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [setting.digest for setting in settings]


def test_optimisers_made_by_hand_are_told_apart() -> None:
    made = [
        optax.adam(1e-3),
        optax.adam(2e-3),
        optax.adam(1e-3, b1=0.8),
        optax.sgd(1e-3),
        optax.sgd(optax.linear_schedule(1e-3, 0.0, 10)),
        optax.sgd(optax.linear_schedule(1e-3, 0.0, 20)),
    ]
    digests = [changed(method=Optimiser(one, steps=10)).digest for one in made]
    assert len(set(digests)) == len(made)
    same = changed(method=Optimiser(optax.adam(1e-3), steps=10))
    assert same.digest == digests[0]
    named = changed(method=Optimiser(optax.adam(1e-3), steps=10, label="mine"))
    assert there_and_back(named) == named
    assert named.to_dict()["method"]["label"] == "mine"  # type: ignore[index]
    with pytest.raises(InvalidInput, match="was not saved; give it again"):
        _ = there_and_back(named).method.transform
    options = changed(method=Optimiser("adam", 10, 1e-3, options={"b1": 0.8}))
    assert there_and_back(options) == options
    with pytest.raises(InvalidInput, match="options"):
        Optimiser("adam", 10, 1e-3, options={"beta": 0.8})


def test_settings_are_equal_by_digest_only() -> None:
    assert there_and_back(PLAIN) == PLAIN
    assert changed(seeds=(0,)) != PLAIN
    assert PLAIN != "setting"
    assert len({PLAIN, there_and_back(PLAIN), changed(seeds=(0,))}) == 2
