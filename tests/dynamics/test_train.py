"""`train`: progress, records, seeds, convergence, divergence, resuming, no recompilation."""

import logging
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.errors import Interrupted, InvalidInput

# One shape for nearly all runs of this file: it is compiled once.
TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
FLOW = ss.GradientFlow(until=2000)
DESCENT = ss.GradientDescent(learning_rate=0.2, steps=5000)
POINTS = 200
# T7 at M_2.
LEAST = 0.9 - sum(value / (1 + (1 + 0.9 / value) / 31) for value in (0.6, 0.3))


def train(**changes: Any) -> ss.Trajectory:
    arguments = {"method": DESCENT, "init_scale": 0.1, "seeds": 3, "record": POINTS, **changes}
    if {"weights", "init", "start"} & set(changes):
        del arguments["init_scale"]
    return ss.train(arguments.pop("model", MODEL), arguments.pop("task", TASK), **arguments)


@pytest.mark.parametrize("method", [FLOW, DESCENT], ids=["flow", "descent"])
@pytest.mark.usefixtures("short_segments")
def test_progress_rises_to_one(method: Any) -> None:
    seen: list[ss.Snapshot] = []
    train(method=method, observers=[seen.append])
    shares = [snapshot.share for snapshot in seen]
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < 1
    assert shares[-1] == 1.0
    seconds = [snapshot.seconds for snapshot in seen]
    assert seconds == sorted(seconds)


@pytest.mark.usefixtures("short_segments")
def test_progress_of_descent_is_the_share_of_steps() -> None:
    seen: list[float] = []
    train(observers=[lambda snapshot: seen.append(snapshot.share)])
    np.testing.assert_allclose(seen, np.arange(1, 51) / 50, rtol=1e-12)


@pytest.mark.parametrize("method", [FLOW, DESCENT], ids=["flow", "descent"])
def test_the_whole_path_is_labelled(method: Any) -> None:
    run = train(method=method)
    dataset = run.dataset
    assert dataset["loss"].dims == ("seed", "time")
    assert dataset["v"].dims == ("seed", "time", "head")
    assert dataset["k"].dims == dataset["q"].dims == ("seed", "time", "head", "rank", "dim")
    assert dataset["effective_map"].dims == ("seed", "time", "dim", "query_dim")
    assert dataset["key_query_balance"].dims == ("seed", "time", "head", "rank")
    assert dataset["seed"].to_numpy().tolist() == [0, 1, 2]
    assert ("step" in dataset.coords) == method.counts_steps
    for variable in dataset.data_vars.values():
        assert isinstance(variable.to_numpy(), np.ndarray)
        assert variable.dtype == np.float64
    assert run.loss.shape == (3, POINTS)
    assert {outcome.result for outcome in run.outcomes} == {"finished"}
    np.testing.assert_allclose(run.loss[:, -1], LEAST, atol=1e-6)


def test_what_is_recorded_fits_together() -> None:
    run = train()
    start = ss.RandomStart(0.1).ensemble(MODEL, TASK, np.arange(3))
    for name, array in start.items():
        np.testing.assert_array_equal(run.dataset[name].isel(time=0), array)
    moments, weights = TASK.moments(), run.weights(seed=1, index=70)
    effective_map = MODEL.effective_map(weights)
    np.testing.assert_allclose(
        run.dataset["effective_map"].isel(seed=1, time=70), effective_map, atol=1e-14
    )
    spread = np.trace(effective_map.T @ moments.summary @ effective_map @ moments.query)
    loss = moments.label_power - 2 * np.sum(effective_map * moments.drive) + spread
    assert run.loss[1, 70] == pytest.approx(loss, rel=1e-12)
    for name, array in MODEL.conserved(weights).items():
        np.testing.assert_allclose(run.dataset[name].isel(seed=1, time=70), array, atol=1e-14)


def test_descent_is_the_plain_loop() -> None:
    run = train(record=range(20), method=ss.GradientDescent(0.2, 20), seeds=1)
    moments = TASK.moments()
    weights = {name: array.copy() for name, array in run.weights(seed=0, index=0).items()}
    for step in range(21):
        for name, array in run.weights(seed=0, index=step).items():
            np.testing.assert_allclose(array, weights[name], rtol=1e-12, atol=1e-15)
        force = moments.drive - moments.summary @ MODEL.effective_map(weights) @ moments.query
        for name, velocity in MODEL.pull_back(weights, force).items():
            weights[name] = weights[name] + 2 * 0.2 * velocity


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        (MODEL, 1.0),
        (ss.SeparateAttention(3, 1, "none"), 31 ** (2 / 3)),
        (ss.MergedAttention(3, "none"), 31.0),
    ],
    ids=["context", "separate, none", "merged, none"],
)
def test_time_is_two_learning_rates_a_step(model: Any, unit: float) -> None:
    run = train(model=model, method=ss.GradientDescent(0.001, 10), record=5)
    steps = run.dataset["step"].to_numpy()
    assert steps.tolist() == [0, 2, 5, 8, 10]
    assert steps.dtype == np.int64
    np.testing.assert_allclose(run.time, 2 * 0.001 * unit * steps, rtol=1e-14)


@pytest.mark.parametrize(
    ("record", "steps"),
    [
        (3, [0, 25, 50]),
        ([7, 30], [0, 7, 30, 50]),
        (np.array([0.0, 50.0]), [0, 50]),
        (ss.Record(at=np.array([1.0])), [0, 1, 50]),
        (ss.Record(points=4, spacing="log"), [0, 1, 7, 50]),
    ],
    ids=["number", "list", "array", "record", "log"],
)
def test_every_kind_of_record(record: Any, steps: list[int]) -> None:
    run = train(method=ss.GradientDescent(0.2, 50), record=record)
    assert run.dataset["step"].to_numpy().tolist() == steps


def test_a_spacing_alone_takes_a_thousand_points() -> None:
    run = train(record="log", seeds=1)
    assert run.time.size <= 1000
    assert run.dataset["step"].to_numpy()[:4].tolist() == [0, 1, 2, 3]


def test_flow_is_recorded_where_asked() -> None:
    dense, sparse = train(method=FLOW), train(method=FLOW, record=[100.0, 750.5])
    assert sparse.time.tolist() == [0.0, 100.0, 750.5, 2000.0]
    # The grid does not steer the solver: only the interpolation at its points is new.
    np.testing.assert_allclose(sparse.loss[:, -1], dense.loss[:, -1], atol=1e-12)


def test_without_weights_the_last_ones_are_kept() -> None:
    full, lean = train(), train(record=ss.Record(points=POINTS, weights=False))
    np.testing.assert_array_equal(lean.loss, full.loss)
    assert set(lean.dataset.data_vars) == {"loss", "final_v", "final_k", "final_q"}
    for name, array in lean.weights().items():
        np.testing.assert_array_equal(array, full.weights()[name])
    with pytest.raises(InvalidInput, match="index = 0: only the last weights were recorded"):
        lean.weights(index=0)


@pytest.mark.parametrize(
    "method",
    [
        ss.GradientFlow(until=2000, converged=1e-3),
        ss.GradientDescent(0.2, 5000, converged=1e-3),
    ],
    ids=["flow", "descent"],
)
def test_a_converged_seed_rests(method: Any) -> None:
    run = train(method=method)
    threshold = LEAST + 1e-3 * (0.9 - LEAST)
    assert [outcome.result for outcome in run.outcomes] == ["converged"] * 3
    for seed, loss in enumerate(run.loss):
        reached = int(np.flatnonzero(loss <= threshold)[0])
        assert reached > 0
        # Later records repeat the state at which it came to rest, weights and all.
        assert (loss[reached:] == loss[reached]).all()
        values = run.dataset["v"].isel(seed=seed).to_numpy()
        assert (values[reached:] == values[reached]).all()
        assert (np.diff(loss[: reached + 1]) < 0).all()


def test_convergence_needs_a_known_least_loss() -> None:
    with pytest.raises(InvalidInput, match=r"converged = 0\.001: the least loss is not known"):
        train(
            task=TASK.sample(30),
            model=ss.SeparateAttention(1),
            method=ss.GradientFlow(until=10, converged=1e-3),
        )


def plain_divergence(weights: dict[str, np.ndarray], rate: float) -> int:
    """The first step after which a plain loop has weights that are not finite."""
    moments = TASK.moments()
    with np.errstate(all="ignore"):
        for step in range(1, 10_000):
            force = moments.drive - moments.summary @ MODEL.effective_map(weights) @ moments.query
            moved = MODEL.pull_back(weights, force)
            weights = {name: weights[name] + 2 * rate * moved[name] for name in weights}
            if not all(np.isfinite(array).all() for array in weights.values()):
                return step
    raise AssertionError("it did not diverge")


def told_rate(outcome: Any) -> float:
    assert outcome.result == "diverged"
    return float(outcome.message.rpartition("try learning_rate ")[2])


# Fast enough that rounding does not decide when.
@pytest.mark.parametrize("rate", [3.0, 5.0])
def test_divergence_is_marked_with_its_step_and_a_rate_that_works(rate: float) -> None:
    run = train(method=ss.GradientDescent(rate, 500))
    for seed, outcome in enumerate(run.outcomes):
        step = plain_divergence(run.weights(seed=seed, index=0), rate)
        assert outcome.message.startswith(f"diverged at step {step}; try learning_rate ")
    cured = train(method=ss.GradientDescent(told_rate(run.outcomes[0]), 5000))
    assert [outcome.result for outcome in cured.outcomes] == ["finished"] * 3
    np.testing.assert_allclose(cured.loss[:, -1], LEAST, atol=1e-6)


def one_large_start(factor: float) -> dict[str, np.ndarray]:
    """Three starts, of which the second is `factor` times as large."""
    weights = ss.RandomStart(0.1).ensemble(MODEL, TASK, np.arange(3))
    scale = np.array([1.0, factor, 1.0])
    return {n: array * scale.reshape(3, *[1] * (array.ndim - 1)) for n, array in weights.items()}


def test_a_seed_that_diverges_leaves_the_others_alone() -> None:
    run, alone = train(weights=one_large_start(100.0), seeds=None), train()
    assert [outcome.result for outcome in run.outcomes] == ["finished", "diverged", "finished"]
    step = plain_divergence(run.weights(seed=1, index=0), 0.2)
    assert f"diverged at step {step};" in run.outcomes[1].message
    np.testing.assert_array_equal(run.loss[[0, 2]], alone.loss[[0, 2]])
    assert np.isfinite(run.loss[1, 0])
    assert np.isnan(run.loss[1, 1:]).all()


def test_a_start_that_overflows_does_not_hide_the_rate_of_the_others() -> None:
    descent = ss.GradientDescent(1e4, 500)
    weights = {name: array[1::-1] for name, array in one_large_start(1e200).items()}
    run = train(method=descent, weights=weights, seeds=None)
    assert "overflows float64 at the start" in run.outcomes[0].message
    assert told_rate(run.outcomes[1]) == told_rate(train(method=descent).outcomes[0])


def test_the_rate_that_a_steep_start_is_told_works() -> None:
    weights = one_large_start(100.0)
    run = train(weights=weights, seeds=None)
    cured = train(
        weights=weights, seeds=None, method=ss.GradientDescent(told_rate(run.outcomes[1]), 5000)
    )
    assert [outcome.result for outcome in cured.outcomes] == ["finished"] * 3


def test_flow_from_weights_too_large_for_float64_says_so() -> None:
    run = train(method=FLOW, weights=one_large_start(1e60), seeds=None)
    assert [outcome.result for outcome in run.outcomes] == ["finished", "diverged", "finished"]
    assert "too large for float64; try a smaller init_scale" in run.outcomes[1].message


def test_seeds_may_be_named() -> None:
    run, all_three = train(seeds=[2, 0, 1]), train(seeds=3)
    assert run.setting.seeds == (2, 0, 1)
    assert run.dataset["seed"].to_numpy().tolist() == [2, 0, 1]
    np.testing.assert_array_equal(run.loss, all_three.loss[[2, 0, 1]])
    by_label = run.dataset["loss"].sel(seed=2)
    np.testing.assert_array_equal(by_label, all_three.loss[2])


def test_given_weights_name_their_seeds() -> None:
    weights = ss.RandomStart(0.1).ensemble(MODEL, TASK, np.arange(3))
    run = train(weights=weights, seeds=None)
    assert run.setting.seeds == (0, 1, 2)
    np.testing.assert_array_equal(run.loss, train().loss)
    with pytest.raises(InvalidInput, match="seeds = 3: weights are given for seeds 0 to 2"):
        train(weights=weights, seeds=4)
    one = {name: array[1] for name, array in weights.items()}
    repeated = train(weights=one, seeds=3)
    np.testing.assert_array_equal(repeated.loss, np.stack([repeated.loss[0]] * 3))


def test_another_method_goes_on() -> None:
    first = train(method=ss.GradientFlow(until=100))
    second = train(start=first, method=ss.GradientDescent(0.1, 500), seeds=None)
    assert second.time_start == 100.0
    assert second.time[0] == 100.0
    assert second.dataset["step"].to_numpy()[[0, -1]].tolist() == [0, 500]
    np.testing.assert_allclose(second.time[-1], 100 + 2 * 0.1 * 500)
    np.testing.assert_allclose(second.loss[:, 0], first.loss[:, -1], rtol=1e-12)
    third = train(start=second, method=ss.GradientFlow(until=300), seeds=None)
    assert third.time[[0, -1]].tolist() == [200.0, 300.0]
    np.testing.assert_allclose(third.loss[:, 0], second.loss[:, -1], rtol=1e-12)
    # Descent at a small rate keeps near the flow: error O(η), here under one per cent.
    through = train(method=ss.GradientFlow(until=300), record=[100.0, 200.0])
    np.testing.assert_allclose(second.loss[:, -1], through.loss[:, 2], rtol=0.05)


def test_a_run_cannot_go_on_to_the_past() -> None:
    first = train(method=ss.GradientFlow(until=100))
    with pytest.raises(InvalidInput, match=r"until = 100\.0: the run begins at time 100"):
        train(start=first, method=ss.GradientFlow(until=100), seeds=None)


MIDWAY = ss.StopWhen(lambda snapshot: snapshot.share >= 0.5)


@pytest.mark.usefixtures("short_segments")
def test_an_interruption_keeps_what_was_computed() -> None:
    with pytest.raises(Interrupted, match="can be resumed") as stop:
        train(observers=[MIDWAY])
    snapshot = stop.value.snapshot
    part = snapshot.result
    assert not part.is_complete
    assert part.dataset.identical(snapshot.dataset)
    assert {outcome.result for outcome in part.outcomes} == {"interrupted"}
    whole = train()
    count = part.time.size
    assert 90 <= count <= 110
    np.testing.assert_array_equal(part.loss, whole.loss[:, :count])
    assert ss.resume(part).equals(whole)
    assert ss.resume(snapshot).equals(whole)
    with pytest.raises(InvalidInput, match="is complete; train"):
        ss.resume(whole)


@pytest.mark.usefixtures("short_segments")
def test_a_checkpoint_outlives_its_run(tmp_path) -> None:
    with pytest.raises(Interrupted):
        train(observers=[ss.Checkpoint(tmp_path), MIDWAY])
    seen: list[float] = []
    rest = train(observers=[ss.Checkpoint(tmp_path), lambda at: seen.append(at.share)])
    assert seen[0] > 0.4, "it started again"
    assert rest.equals(train())


@pytest.mark.usefixtures("short_segments")
def test_an_observer_sees_the_users_own_precision() -> None:
    kinds: set[str] = set()

    def look(snapshot: ss.Snapshot) -> None:
        kinds.add(f"{jnp.asarray(0.1).dtype} {snapshot.dataset['loss'].dtype}")

    train(observers=[look])
    assert kinds == {"float32 float64"}


def compilations(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "Finished XLA compilation" in r.getMessage()]


@pytest.mark.usefixtures("no_program_let_go")
@pytest.mark.parametrize(
    ("method", "other"),
    [
        (FLOW, ss.GradientFlow(until=500, rtol=1e-7, atol=1e-10)),
        (DESCENT, ss.GradientDescent(0.1, 700)),
    ],
    ids=["flow", "descent"],
)
@pytest.mark.usefixtures("short_segments")
def test_one_shape_is_compiled_once(
    method: Any,
    other: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    train(method=method)
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        jax.jit(lambda x: x + 1)(1.0)
        assert len(compilations(caplog)) == 1, "compilations are seen"
        caplog.clear()
        # Another length, tolerance, seed, scale, spectrum, noise and spacing; many segments.
        train(method=other)
        train(method=method, seeds=[7, 8, 9], init_scale=0.2)
        train(method=method, task=ss.InContextRegression([0.5, 0.1], 9, label_noise=0.4))
        if not method.counts_steps:
            train(method=method, record=ss.Record(points=POINTS, spacing="log"))
        assert compilations(caplog) == []


def test_threads_train_by_themselves() -> None:
    results: list[Any] = []

    def work() -> None:
        results.append(train())
        results.append(jax.config.jax_enable_x64)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].equals(train())
    assert results[1] is False


def test_the_users_precision_is_left_alone() -> None:
    train()
    assert jax.numpy.zeros(1).dtype == np.float32


def test_data_and_law_of_any_coordinates_train() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    rotated = ss.InContextRegression(turn @ np.diag([0.6, 0.3]) @ turn.T, context_length=31)
    run = train(task=rotated, method=ss.GradientDescent(0.2, 20_000))
    moments = rotated.moments()
    best = np.linalg.inv(moments.summary) @ moments.drive @ np.linalg.inv(moments.query)
    for effective_map in run.dataset["effective_map"].isel(time=-1).to_numpy():
        np.testing.assert_allclose(effective_map, best, atol=1e-4)
    data = rotated.sample(500)
    on_data, on_statistics = train(task=data), train(task=data.statistics())
    np.testing.assert_array_equal(on_data.loss, on_statistics.loss)
    residual = data.target - MODEL.predict(on_data.weights(seed=0), data)
    assert on_data.loss[0, -1] == pytest.approx(np.mean(residual**2), rel=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"init": ss.RandomStart(), "weights": {"v": np.ones(3)}},
            r"start = \['init', 'weights'\]: give one of",
        ),
        ({"seeds": 0}, "seeds = 0: must be a whole number, at least 1"),
        ({"seeds": []}, r"seeds = \[\]: must hold at least one seed"),
        ({"seeds": [1, 1]}, r"seeds = \[1, 1\]: must hold at least one seed, each once"),
        ({"seeds": [-1]}, "seeds = -1: must be a whole number, at least 0"),
        ({"init_scale": -0.1}, r"init_scale = -0\.1: must be a finite number above 0"),
        ({"weights": {"v": np.ones(3)}}, r"weights = \['v'\]: must name v, k, q"),
        ({"record": [1, 6000]}, r"record\.at = .*6000.*: the run ends at 5000"),
        ({"record": [1.5]}, r"record\.at = .*must be whole steps"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        train(**changes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.GradientFlow(until=0), "until = 0: must be a finite number above 0"),
        (lambda: ss.GradientFlow(until=float("inf")), "until = inf"),
        (lambda: ss.GradientFlow(until=1, rtol=0.0), r"rtol = 0\.0"),
        (lambda: ss.GradientFlow(until=1, rtol=1.0), r"rtol = 1\.0: must be below 1"),
        (lambda: ss.GradientFlow(until=1, atol=-1.0), r"atol = -1\.0"),
        (lambda: ss.GradientFlow(until=1, converged=0.0), r"converged = 0\.0"),
        (lambda: ss.GradientDescent(0.0, 10), r"learning_rate = 0\.0"),
        (lambda: ss.GradientDescent(0.1, 0), "steps = 0: must be a whole number, at least 1"),
        (lambda: ss.GradientDescent(0.1, 10, -1.0), r"converged = -1\.0"),
    ],
)
def test_methods_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_a_start_below_the_absolute_error_asks_for_a_smaller_one() -> None:
    def drop(atol: float) -> float:
        flow = ss.GradientFlow(until=150, rtol=1e-10, atol=atol)
        task, record = ss.InContextRegression([0.6, 0.3], 31), ss.Record(points=3, keep="drops")
        run = ss.train(ss.MergedAttention(2), task, method=flow, init_scale=1e-12, record=record)
        return float(run.dataset["drop_time"].item())

    exact = drop(1e-24)
    assert abs(drop(1e-20) / exact - 1) < 1e-8
    assert 1e-5 < abs(drop(1e-11) / exact - 1) < 5e-4
