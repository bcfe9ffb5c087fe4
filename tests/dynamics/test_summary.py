"""The summary of a run, from events noted on the way or from its records."""

from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics._many import SummariesJob
from saddlescope.dynamics._summarise import plateau_levels
from saddlescope.running import programs
from saddlescope.theory import plateau_losses

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
FLOW = ss.GradientFlow(until=2000)
DESCENT = ss.GradientDescent(learning_rate=0.2, steps=5000)
DROPS = ss.Record(keep="drops")
METHODS = {"flow": FLOW, "stiff": ss.GradientFlow(2000, solver="stiff"), "descent": DESCENT}


def setting(**changes: Any) -> ss.Setting:
    parts = {"model": MODEL, "task": TASK, "method": FLOW, "init": ss.RandomStart(0.1)}
    return ss.Setting(**{**parts, "record": DROPS, "seeds": 3, **changes})


@pytest.mark.parametrize("method", METHODS)
def test_what_is_found_on_the_way_is_what_following_it_again_finds(method: str) -> None:
    kept = ss.train(setting(method=METHODS[method]))
    whole = ss.train(setting(method=METHODS[method], record=ss.Record(points=1000)))
    summary = kept.summary()
    followed = [[drop.time for drop in seed.drops] for seed in whole.compare().seeds]
    expected = np.array(followed, dtype=float)
    assert np.isfinite(expected).all()
    # A step of descent is .4 long and goes straight; a flow's is a cubic.
    atol = 0.02 if method == "descent" else 1e-3
    np.testing.assert_allclose(summary["drop_time"], expected, rtol=0, atol=atol)
    np.testing.assert_array_equal(summary["final_loss"], whole.loss[:, -1])
    assert set(summary["result"].to_numpy()) == {"finished"}
    # The same from the records, as far as they tell.
    recorded = whole.summary()
    assert set(recorded) == set(summary)
    spacing = float(np.diff(whole.time).max())
    for name in ("drop_time", "learned_time"):
        np.testing.assert_allclose(recorded[name], summary[name], rtol=0, atol=spacing)
    np.testing.assert_allclose(recorded["plateau_loss"], summary["plateau_loss"], rtol=0, atol=1e-3)
    np.testing.assert_array_equal(recorded["order"], summary["order"])


def test_the_levels_are_near_those_of_the_theory() -> None:
    summary = ss.train(setting()).summary()
    expected = plateau_losses(TASK, model=MODEL)
    np.testing.assert_allclose(
        summary["plateau_loss"][:, [0, 2]], [expected[[0, 2]]] * 3, atol=2e-3
    )
    # A plateau between two drops that come close is passed, not rested at.
    assert (np.abs(summary["plateau_loss"][:, 1] - expected[1]) < 0.05).all()


@pytest.mark.parametrize(
    "model",
    [MODEL, ss.SeparateAttention(1), ss.SeparateAttention(4, rank=2), ss.MergedAttention(3)],
    ids=repr,
)
def test_the_levels_to_look_out_for_are_the_theorys(model: Any) -> None:
    for task in (TASK, ss.InContextRegression([0.5, 0.2, 0.1], 10, label_noise=0.2)):
        known = plateau_levels(setting(model=model, task=task), model.objective(task).risk)
        np.testing.assert_allclose(known, plateau_losses(task, model=model), rtol=1e-13)


def test_a_direction_alone_is_learned_alone() -> None:
    run = ss.train(setting(init=ss.EigenvectorStart(direction=1, init_scale=0.1), seeds=1))
    summary = run.summary()
    assert summary["order"].to_numpy().tolist() == [[1, -1]]
    assert np.isfinite(summary["learned_time"]).to_numpy().tolist() == [[False, True]]


def test_a_start_below_a_level_has_passed_it() -> None:
    run = ss.train(setting(init=ss.FixedPointStart([0], init_scale=0.1), method=FLOW))
    summary = run.summary()
    assert np.isnan(summary["drop_time"][:, 0]).all()
    assert np.isfinite(summary["drop_time"][:, 1]).all()
    assert np.isfinite(summary["plateau_loss"][:, 1:]).all()
    assert summary["order"].to_numpy().tolist() == [[1, -1]] * 3


def test_what_comes_after_the_end_is_not_told() -> None:
    first = ss.train(setting()).summary()["drop_time"].to_numpy()
    end = float(first[:, 0].min()) + 1e-3
    early = ss.train(setting(method=ss.GradientFlow(end))).summary()
    assert np.isfinite(early["drop_time"]).to_numpy().sum() == 1
    np.testing.assert_allclose(np.nanmin(early["drop_time"]), first[:, 0].min(), atol=1e-6)
    assert np.isnan(early["plateau_loss"][:, 2]).all()


def test_drops_are_the_same_through_an_interruption(short_segments: None) -> None:
    whole = ss.train(setting())
    with pytest.raises(ss.Interrupted) as caught:
        ss.train(setting(), observers=[ss.StopWhen(lambda snapshot: snapshot.share > 0.1)])
    assert ss.resume(caught.value.snapshot).equals(whole)


def test_many_settings_keep_their_drops() -> None:
    three = ss.InContextRegression([0.5, 0.3, 0.1], context_length=31)
    settings = [
        setting(method=DESCENT, **changes)
        for changes in ({}, {"init": ss.RandomStart(0.2)}, {"task": three})
    ]
    for run, one in zip(ss.train_many(settings), settings, strict=True):
        alone = ss.train(one).summary()
        assert run.summary().sizes == alone.sizes
        for name in ("drop_time", "learned_time", "plateau_loss", "order", "final_loss"):
            np.testing.assert_allclose(run.summary()[name], alone[name], rtol=1e-8)


def test_a_run_of_drops_is_saved_compared_and_holds_no_weights(tmp_path: Any) -> None:
    run = ss.train(MODEL, TASK, method=FLOW, init_scale=0.1, seeds=3, keep="drops")
    assert run.state == ()
    assert run.loss.shape == (3, 2)
    assert ss.load(run.save(tmp_path / "run")).equals(run)
    (first, second) = run.compare().seeds[0].drops
    assert first.time == float(run.summary()["drop_time"][0, 0])
    assert first.predicted_time is not None
    assert second.loss_before == first.loss_after
    with pytest.raises(ss.InvalidInput, match=r"record.keep = 'drops': no weights were kept"):
        ss.train(MODEL, TASK, method=FLOW, start=run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": "all"}, "record.keep = 'all'"),
        ({"keep": "drops", "record": [1.0, 2.0]}, "only drops are kept"),
        (
            {"keep": "drops", "model": ss.SeparateAttention(3, activation="softmax")},
            "record.keep = 'drops': the levels of the drops are not known here",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(changes: dict[str, Any], message: str) -> None:
    data = TASK.sample(8) if "model" in changes else TASK
    with pytest.raises(ss.InvalidInput, match=message):
        ss.train(**{"model": MODEL, "task": data, "method": FLOW, **changes})


@pytest.mark.parametrize("method", [FLOW, ss.GradientDescent(0.2, 2500)], ids=["flow", "descent"])
def test_drops_are_kept_of_a_run_that_goes_on(method: Any) -> None:
    first = ss.train(setting(method=ss.GradientFlow(20.0), record=ss.Record(points=5)))
    run = ss.train(MODEL, TASK, method=method, start=first, keep="drops")
    whole = ss.train(setting()).summary()["drop_time"].to_numpy()
    # Descent goes a little way off the flow.
    atol = 1e-3 if method is FLOW else 5.0
    np.testing.assert_allclose(run.summary()["drop_time"], whole, rtol=0, atol=atol)


def test_a_seed_that_diverges_has_no_drops() -> None:
    wild = {"method": ss.GradientDescent(50.0, 200), "init": ss.RandomStart(0.3)}
    for record in (DROPS, ss.Record(points=50)):
        run = ss.train(setting(record=record, **wild))
        diverged = run.outcomes.are(ss.Result.DIVERGED)
        assert diverged.any()
        assert np.isnan(run.summary()["drop_time"][diverged]).all()
        assert all(drop.time is None for drop in run.compare().seeds[0].drops)


def test_what_is_not_known_is_left_out() -> None:
    softmax = ss.SeparateAttention(3, activation="softmax")
    method = ss.StochasticGradientDescent(0.05, 20, batch_size=4)
    summary = ss.train(softmax, TASK, method=method, record=5).summary()
    assert summary.sizes["drop"] == summary.sizes["level"] == 0
    assert np.isfinite(summary["final_loss"]).all()
    assert summary["drop_time"].attrs["long_name"]


def test_a_run_of_drops_has_no_curve() -> None:
    run = ss.train(setting(seeds=1))
    assert vars(run.setting.record) == vars(ss.Record(points=7, keep="drops"))
    with pytest.raises(ss.InvalidInput, match="no curve was kept"):
        run.stages()


@pytest.mark.parametrize("method", METHODS)
def test_its_second_segment_compiles_nothing(method: str) -> None:
    job = SummariesJob([setting(method=METHODS[method])])
    state, _ = job.advance(job.begin(), 50)
    before = programs._count
    moved, _ = job.advance(state, 50)
    assert programs._count == before
    assert job.share(moved) > job.share(state)
