"""Any valid setting trains or says why; any invalid one says what is wrong, in one line."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import saddlescope as ss
from saddlescope.errors import InvalidInput, SaddlescopeError
from saddlescope.setting import Setting

# Small shapes, few of them: what varies freely is what does not compile anew. Nine points and two
# seeds throughout; plain values are drawn and the test builds with them (beartype draws at random,
# which Hypothesis forbids to strategies).
MODELS = {
    "merged": lambda: ss.MergedAttention(2),
    "separate": lambda: ss.SeparateAttention(2),
    "one head of rank two": lambda: ss.SeparateAttention(1, 2),
    "unnormalised": lambda: ss.SeparateAttention(2, 1, "none"),
}
magnitudes = st.floats(-6, 1).map(lambda power: 10.0**power)
eigenvalues = st.tuples(*[st.sampled_from([0.0, 0.3]) | magnitudes] * 2).filter(any)
tasks = st.fixed_dictionaries(
    {
        "spectrum": eigenvalues,
        "angle": st.sampled_from([0.0, 0.0, 0.7]),
        "context_length": st.integers(1, 1000) | st.just([1, 7]),
        "task_covariance": st.none() | eigenvalues,
        "query_covariance": st.none() | eigenvalues,
        "label_noise": st.just(0.0) | magnitudes,
    }
)
starts = st.sampled_from(["paper", "balanced", "eigenvector", "fixed point"])


def turned(values: tuple[float, ...], angle: float) -> np.ndarray:
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (turn * values) @ turn.T


def build(task: dict[str, Any], model: str, start: str, scale: float, method: Any) -> Setting:
    matrix = turned(task["spectrum"], task["angle"])
    given_task = {k: v for k, v in task.items() if k not in {"spectrum", "angle"}}
    init: Any = {
        "paper": lambda: ss.RandomStart(scale),
        "balanced": lambda: ss.BalancedStart(scale),
        "eigenvector": lambda: ss.EigenvectorStart(1, scale),
        "fixed point": lambda: ss.FixedPointStart((0,), scale),
    }[start]()
    return Setting(
        task=ss.InContextRegression((matrix + matrix.T) / 2, **given_task),
        model=MODELS[model](),
        method=method,
        init=init,
        record=ss.Record(points=9),
        seeds=(0, 1),
    )


def run_or_reason(*arguments: Any) -> ss.Trajectory | str:
    """The run, or why there is none."""
    try:
        return ss.train(build(*arguments))
    except SaddlescopeError as reason:
        return str(reason)


def check(run: ss.Trajectory | str) -> None:
    """A reason is one line; a run has sound numbers and can be set beside its prediction."""
    if isinstance(run, str):
        assert run
        assert "\n" not in run
        return
    for loss, outcome in zip(run.loss, run.outcomes, strict=True):
        assert outcome.result in {"finished", "converged", "diverged"}
        if outcome.result == "diverged":
            assert "try" in outcome.message
            assert "\n" not in outcome.message
        else:
            assert np.isfinite(loss).all()
            assert (loss >= -1e-9 * max(1.0, loss[0])).all()
    values = run.compare().to_dict()
    json.dumps(values, allow_nan=False)


PLAIN = {
    "spectrum": (0.3, 1.0),
    "angle": 0.0,
    "context_length": 5,
    "task_covariance": None,
    "query_covariance": None,
    "label_noise": 0.0,
}
CROSSED = {**PLAIN, "angle": 0.7, "query_covariance": (0.1, 1.0)}


# Divergence before any record; divergence where covariances do not commute; and a run of one or
# two records where the theory is silent and the curve must speak for itself.
@example(PLAIN, "separate", "paper", 1.0, 100.0, 44, None)
@example(CROSSED, "merged", "paper", 1.0, 5.0, 44, None)
@example(CROSSED, "merged", "paper", 0.01, 0.1, 44, 0.9)
@settings(max_examples=30)
@given(
    tasks,
    st.sampled_from(sorted(MODELS)),
    starts,
    magnitudes,
    st.floats(1e-4, 10.0),
    st.integers(8, 300),
    st.none() | st.floats(1e-9, 0.9),
)
def test_any_valid_descent_runs_or_says_why(
    task: dict[str, Any],
    model: str,
    start: str,
    scale: float,
    rate: float,
    steps: int,
    converged: float | None,
) -> None:
    method = ss.GradientDescent(rate, steps, converged)
    check(run_or_reason(task, model, start, scale, method))


@settings(max_examples=15)
@given(
    tasks,
    st.sampled_from(["merged", "separate"]),
    starts,
    magnitudes,
    magnitudes,
    st.none() | st.floats(1e-9, 0.9),
)
def test_any_valid_flow_runs_or_says_why(
    task: dict[str, Any],
    model: str,
    start: str,
    scale: float,
    until: float,
    converged: float | None,
) -> None:
    method = ss.GradientFlow(until=100 * until, converged=converged)
    aligned = {**task, "angle": 0.0, "task_covariance": None}
    check(run_or_reason(aligned, model, start, scale, method))


GOOD = Setting(
    task=ss.InContextRegression([0.6, 0.3], context_length=31),
    model=ss.SeparateAttention(2),
    method=ss.GradientDescent(0.1, 10),
    init=ss.RandomStart(0.1),
    record=ss.Record(points=9),
    seeds=(0, 1),
).to_dict()
not_positive = st.just(0.0) | st.floats(max_value=0.0) | st.sampled_from([np.nan, np.inf])
negative = st.floats(max_value=-1e-300, allow_infinity=False)
not_finite = st.sampled_from([np.nan, np.inf, -np.inf])
INVALID = {
    ("task", "spectrum"): st.tuples(st.floats(0.1, 1.0), negative | not_finite).map(list),
    ("task", "task_covariance"): st.tuples(negative | not_finite, st.floats(0.1, 1.0)).map(list),
    ("task", "query_covariance"): st.lists(st.floats(0.1, 1.0), min_size=3, max_size=4),
    ("task", "context_length"): st.integers(max_value=0) | st.floats(0.01, 0.99) | st.just([]),
    ("task", "label_noise"): negative | not_finite,
    ("model", "heads"): st.integers(max_value=0),
    ("model", "rank"): st.integers(max_value=0),
    ("model", "normalisation"): st.text().filter(lambda word: word not in {"context", "none"}),
    ("method", "learning_rate"): not_positive,
    ("method", "steps"): st.integers(max_value=0),
    ("method", "converged"): not_positive,
    ("init", "scale"): not_positive,
    ("record", "points"): st.integers(max_value=1),
    ("record", "spacing"): st.text().filter(lambda word: word not in {"linear", "log"}),
}


@pytest.mark.parametrize(("part", "field"), INVALID, ids=[".".join(path) for path in INVALID])
@settings(max_examples=20)
@given(data=st.data())
def test_an_invalid_value_is_refused_in_one_line(
    part: str, field: str, data: st.DataObject
) -> None:
    value = data.draw(INVALID[part, field])
    values = {**GOOD, part: {**GOOD[part], field: value}}
    with pytest.raises(InvalidInput) as refusal:
        Setting.from_dict(values)
    named = {"scale": "init_scale"}.get(field, field)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(
    st.sampled_from(["task", "model", "method", "init", "record", None]),
    st.text(min_size=1).filter(str.isidentifier),
    st.text(),
)
def test_an_unknown_field_is_refused_in_one_line(part: str | None, name: str, value: str) -> None:
    known = set(GOOD) if part is None else set(GOOD[part])
    if name in known | {"basis"}:
        return
    values = {**GOOD, name: value} if part is None else {**GOOD, part: {**GOOD[part], name: value}}
    with pytest.raises(InvalidInput, match="unknown field") as refusal:
        Setting.from_dict(values)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.text(max_size=300))
def test_a_message_is_one_line_whatever_the_value(value: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        ss.Spectrum.make(f"{value}, words")
    assert len(str(refusal.value).splitlines()) == 1
    assert len(str(refusal.value)) < 300


@given(
    st.sampled_from(["v", "k", "q"]),
    st.lists(st.integers(0, 4), max_size=5).map(tuple),
)
def test_weights_of_a_wrong_shape_are_refused_in_one_line(
    name: str, shape: tuple[int, ...]
) -> None:
    model, task = ss.SeparateAttention(2), ss.InContextRegression([0.6, 0.3], 31)
    weights = {n: np.ones(s) for n, s in model.shapes(2).items()}
    if shape == weights[name].shape:
        return
    weights[name] = np.ones(shape)
    with pytest.raises(InvalidInput, match="weights") as refusal:
        ss.train(model, task, method=ss.GradientDescent(0.1, 10), weights=weights)
    assert "\n" not in str(refusal.value)


@given(st.integers(2, 10**4), st.integers(10**7, 10**12))
def test_an_ensemble_that_would_not_fit_is_refused_in_one_line(seeds: int, points: int) -> None:
    model, task = ss.SeparateAttention(2), ss.InContextRegression([0.6, 0.3], 31)
    # Even the smallest of these would take 8·3·2·10⁷·19 bytes, 9 GB, beyond a patched limit.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saddlescope.running.memory.available_bytes", lambda: 2**33)
        with pytest.raises(InvalidInput, match="GB are free") as refusal:
            ss.train(model, task, method=ss.GradientFlow(until=1), seeds=seeds, record=points)
    assert "\n" not in str(refusal.value)
