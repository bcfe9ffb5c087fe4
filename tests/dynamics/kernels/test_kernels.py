"""The kernels against XLA's programs of the same steps.

Without a GPU they run in Pallas' interpreter;
`JAX_PLATFORMS=cuda pytest tests/dynamics/kernels` is the same on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import _batch, _prepared
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.kernels.choice import Kernel, choose_kernel
from saddlescope.dynamics.methods._layout import Layout

TASK = ss.InContextRegression(spectrum=[0.6, 0.4], context_length=20)
DESCENT = ss.GradientDescent(learning_rate=0.5, steps=1000)
SINGLE = ss.GradientDescent(learning_rate=0.5, steps=1000, precision="float32")
FLOW = ss.GradientFlow(until=400.0)
IS_INTERPRETED = jax.default_backend() != "gpu"
# Two lanes share three heads: one of them holds a head that is not there.
SHARED, ALONE = Kernel(2, 4, 1, IS_INTERPRETED), Kernel(1, 4, 1, IS_INTERPRETED)
# Heads are loaded into registers one at a time.
IN_MEMORY = Kernel(1, 4, 1, IS_INTERPRETED, in_memory=True)
MODELS = {
    "pairs": ss.SeparateAttention(heads=3),
    "two pairs a head": ss.SeparateAttention(heads=2, rank=2),
    "merged": ss.MergedAttention(heads=2),
}


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def train(kernel: Kernel, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The result of a function whose training runs in a kernel."""

        def choose(methods: list[ss.AbstractMethod], *_: object) -> Kernel | None:
            return kernel if all(method.has_kernel for method in methods) else None

        with monkeypatch.context() as patched:
            for module in (_prepared, _batch):
                patched.setattr(module, "choose_kernel", choose)
            return function(*arguments, **options)

    return train


def options(method: ss.AbstractMethod, **others: Any) -> Any:
    return {"init_scale": 0.2, "seeds": 6, "method": method, "record": 5} | others


def difference(run: ss.Trajectory, other: ss.Trajectory, name: str) -> float:
    return float(np.abs(run.dataset[name] - other.dataset[name]).max())


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("pairs", SHARED),
        ("two pairs a head", ALONE),
        ("merged", SHARED),
        ("pairs", IN_MEMORY),
        ("two pairs a head", IN_MEMORY),
        ("merged", IN_MEMORY),
    ],
)
def test_a_descent_is_that_of_xla(by_kernel: Any, name: str, kernel: Kernel) -> None:
    model = MODELS[name]
    run = by_kernel(kernel, ss.train, model, TASK, **options(DESCENT))
    assert run.dataset.attrs["solver"] == "kernel"
    other = ss.train(model, TASK, **options(DESCENT))
    assert "solver" not in other.dataset.attrs
    for weights in ("loss", *model.shapes(2)):
        assert difference(run, other, weights) < 1e-12


def test_a_flow_errs_no_more_than_that_of_xla(by_kernel: Any) -> None:
    model = MODELS["pairs"]
    run = by_kernel(SHARED, ss.train, model, TASK, **options(FLOW))
    assert run.dataset.attrs["solver"] == "kernel"
    other = ss.train(model, TASK, **options(FLOW))
    exact = ss.train(model, TASK, **options(FLOW.tightened(1000)))
    for weights in ("loss", *model.shapes(2)):
        assert difference(run, exact, weights) < 3 * difference(other, exact, weights) + 1e-12
    for conserved in model.conserved_axes:
        values = run.dataset[conserved]
        assert float(np.abs(values - values.isel(time=0)).max()) < 1e-7


@pytest.mark.parametrize(
    ("method", "kernel"), [(DESCENT, SHARED), (DESCENT, IN_MEMORY), (FLOW, SHARED)]
)
def test_drops_are_found_inside_the_kernel(
    by_kernel: Any, method: ss.AbstractMethod, kernel: Kernel
) -> None:
    model, given = MODELS["pairs"], options(method, record=ss.Record(keep="drops"), init_scale=0.1)
    run = by_kernel(kernel, ss.train, model, TASK, **given).summary()
    other = ss.train(model, TASK, **given).summary()
    assert run["drop_time"].notnull().sum() >= 6
    # Each interpolates within its own steps.
    np.testing.assert_allclose(run["drop_time"], other["drop_time"], rtol=1e-6)
    np.testing.assert_allclose(run["learned_time"], other["learned_time"], rtol=1e-2)
    np.testing.assert_allclose(run["plateau_loss"], other["plateau_loss"], atol=1e-3)
    np.testing.assert_array_equal(run["order"], other["order"])
    np.testing.assert_allclose(run["final_loss"], other["final_loss"], atol=1e-9)


@pytest.mark.parametrize("kernel", [SHARED, IN_MEMORY])
def test_rows_of_several_settings_have_their_own_numbers(by_kernel: Any, kernel: Kernel) -> None:
    settings = [
        ss.Setting(
            ss.SeparateAttention(heads=heads),
            ss.InContextRegression(spectrum=spectrum, context_length=20),
            ss.GradientDescent(learning_rate=rate, steps=steps),
            init=ss.RandomStart(0.2),
            record=ss.Record(points=points),
            seeds=3,
        )
        for heads, spectrum, rate, steps, points in (
            (3, [0.6, 0.4], 0.5, 300, 4),
            (2, [0.7, 0.3], 0.2, 200, 3),
        )
    ]
    runs = by_kernel(kernel, ss.train_many, settings)
    for run, setting in zip(runs, settings, strict=True):
        other = ss.train(setting)
        assert run.dataset.attrs["solver"] == "kernel"
        np.testing.assert_array_equal(run.time, other.time)
        for name in ("loss", "k", "v"):
            assert difference(run, other, name) < 1e-12


def test_settings_that_share_a_batch_share_its_solver(by_kernel: Any) -> None:
    flows = [FLOW, ss.GradientFlow(until=400.0, solver="explicit")]
    settings = [ss.Setting(MODELS["pairs"], TASK, flow, seeds=2) for flow in flows]
    for run in by_kernel(SHARED, ss.train_many, settings):
        assert run.dataset.attrs["solver"] == "explicit"


@pytest.mark.parametrize("kernel", [SHARED, IN_MEMORY])
def test_a_seed_that_diverges_says_so_and_keeps_what_it_had(by_kernel: Any, kernel: Kernel) -> None:
    model = MODELS["pairs"]
    wild = options(ss.GradientDescent(learning_rate=30.0, steps=1000))
    run = by_kernel(kernel, ss.train, model, TASK, **wild)
    other = ss.train(model, TASK, **wild)
    assert run.outcomes.are(ss.Result.DIVERGED).any()
    assert [one.message for one in run.outcomes] == [one.message for one in other.outcomes]


def test_a_seed_that_rests_says_so(by_kernel: Any) -> None:
    model = MODELS["pairs"]
    calm = options(ss.GradientFlow(until=4000.0, converged=1e-3))
    run = by_kernel(SHARED, ss.train, model, TASK, **calm)
    other = ss.train(model, TASK, **calm)
    assert run.outcomes.are(ss.Result.CONVERGED).all()
    np.testing.assert_array_equal(run.dataset["loss"].isnull(), other.dataset["loss"].isnull())


def test_segments_leave_no_trace(by_kernel: Any) -> None:
    setting = ss.Setting(
        MODELS["pairs"], TASK, FLOW, init=ss.RandomStart(0.2), record=ss.Record(points=5), seeds=6
    )
    job = by_kernel(SHARED, Job, setting)
    state, taken = job.advance(job.begin(), 7)
    assert taken == 7
    state = job.restore(job.save(state))
    while not job.is_finished(state):
        state, _ = job.advance(state, 100)
    other, whole = by_kernel(SHARED, Job, setting), None
    whole, _ = other.advance(other.begin(), 10**6)
    assert job.result(state).equals(other.result(whole))


def test_a_long_rest_is_handed_to_the_stiff_method(by_kernel: Any) -> None:
    given = options(ss.GradientFlow(until=1e7))
    run = by_kernel(SHARED, ss.train, MODELS["pairs"], TASK, **given)
    assert run.dataset.attrs["solver"] == "kernel, then stiff for 100% of the seeds"
    other = ss.train(MODELS["pairs"], TASK, **given)
    assert difference(run, other, "loss") < 1e-9


def test_float32_is_computed_in_float32(by_kernel: Any) -> None:
    method = ss.GradientDescent(learning_rate=0.5, steps=50, precision="float32")
    alone = options(method, seeds=1)
    run = by_kernel(SHARED, ss.train, MODELS["pairs"], TASK, **alone)
    assert run.dataset["k"].dtype == np.float32
    assert difference(run, ss.train(MODELS["pairs"], TASK, **alone), "loss") < 1e-5


def test_more_steps_than_fit_in_a_word_lie_ahead(by_kernel: Any) -> None:
    method = ss.GradientDescent(learning_rate=0.5, steps=2**40)
    setting = ss.Setting(MODELS["pairs"], TASK, method, record=ss.Record(points=5), seeds=6)
    job = by_kernel(SHARED, Job, setting)
    state, taken = job.advance(job.begin(), 10)
    assert taken == 10
    assert np.asarray(state[0].records.index).tolist() == [1] * 6


@pytest.mark.parametrize(
    ("model", "method", "rows", "lanes"),
    [
        (ss.SeparateAttention(heads=5), DESCENT, 10_000, 1),
        (ss.SeparateAttention(heads=5), FLOW, 10**6, 8),
        (ss.SeparateAttention(heads=5), FLOW, 10_000, None),
        (ss.SeparateAttention(heads=5), ss.GradientFlow(until=1.0, solver="stiff"), 10**6, None),
        (ss.SeparateAttention(heads=5, blocks="full"), DESCENT, 10_000, None),
        (ss.MergedAttention(heads=5), ss.Optimiser("adam", 10, 0.1), 10_000, None),
        (ss.MergedAttention(heads=100), DESCENT, 10_000, None),
    ],
)
def test_a_kernel_is_chosen_where_it_fits(
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    method: ss.AbstractMethod,
    rows: int,
    lanes: int | None,
) -> None:
    task = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)
    risk, layout = model.objective(task).risk, Layout.of(model, 4)
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    assert choose_kernel([method], model, risk, layout, rows) is None
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    chosen = choose_kernel([method], model, risk, layout, rows)
    assert (None if chosen is None else chosen.lanes) == lanes


@pytest.mark.parametrize(
    ("model", "dimension", "method", "in_memory"),
    [
        (ss.SeparateAttention(heads=9), 8, SINGLE, True),
        (ss.SeparateAttention(heads=9), 8, DESCENT, True),
        (ss.SeparateAttention(heads=9), 4, DESCENT, False),
        (ss.SeparateAttention(heads=9), 9, SINGLE, None),
        (ss.SeparateAttention(heads=9, rank=2), 8, SINGLE, None),
        (ss.SeparateAttention(heads=9), 8, FLOW, None),
    ],
)
def test_heads_stay_in_memory_where_the_map_is_large(
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    dimension: int,
    method: ss.AbstractMethod,
    in_memory: bool | None,
) -> None:
    task = ss.InContextRegression(f"power:{dimension}:1", context_length=31)
    risk, layout = model.objective(task).risk, Layout.of(model, dimension)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    chosen = choose_kernel([method], model, risk, layout, 10**6)
    assert (None if chosen is None else chosen.in_memory) is in_memory
