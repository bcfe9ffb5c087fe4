"""Covariances of low rank: only weights that are felt are worked on, and nothing else changes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics._prepared import Prepared
from saddlescope.risk import DenseRisk, DiagonalRisk

SEPARATE, MERGED = ss.SeparateAttention(heads=3, rank=2), ss.MergedAttention(heads=3)
DESCENT = ss.GradientDescent(learning_rate=0.1, steps=300)
FLOW = ss.GradientFlow(until=200.0)


def _low_rank(dimension: int, rank: int, seed: int) -> np.ndarray:
    directions = np.random.default_rng(seed).normal(size=(dimension, rank))
    covariance = directions @ directions.T
    return covariance / np.trace(covariance)


TASKS = {
    "spectrum": ss.InContextRegression(spectrum=[0.6, 0.0, 0.4, 0.0], context_length=31),
    "covariance": ss.InContextRegression(covariance=_low_rank(5, 2, 0), context_length=31),
    "nothing commutes": ss.InContextRegression(
        covariance=_low_rank(5, 2, 0), task_covariance=_low_rank(5, 5, 1), context_length=31
    ),
}
MOVING = {"spectrum": 2, "covariance": 2, "nothing commutes": 2}


@contextmanager
def _with_all_weights() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for risk in (DiagonalRisk, DenseRisk):
            patch.setattr(risk, "felt_dimensions", lambda self: None)
        yield


@pytest.mark.parametrize(
    ("task", "model", "method"),
    [
        ("spectrum", SEPARATE, DESCENT),
        ("spectrum", MERGED, FLOW),
        ("covariance", MERGED, DESCENT),
        ("covariance", SEPARATE, FLOW),
        ("nothing commutes", SEPARATE, DESCENT),
        ("nothing commutes", SEPARATE, FLOW),
    ],
)
def test_what_is_not_felt_is_left_out_and_nothing_changes(
    task: str, model: ss.SeparateAttention, method: ss.GradientFlow
) -> None:
    setting = ss.Setting(
        model, TASKS[task], method, init=ss.RandomStart(0.3), seeds=2, record=ss.Record(points=5)
    )
    assert Prepared(setting).problem.dimension == MOVING[task]
    with _with_all_weights():
        assert Prepared(setting).problem.dimension == TASKS[task].dimension
        whole = ss.train(setting).dataset
    run = ss.train(setting).dataset
    assert set(run) == set(whole)
    # Rounding alone is another, and a flow that leaves a plateau makes more of it: 5e-12, measured.
    within = 1e-12 if method.counts_steps else 1e-10
    for name, array in whole.items():
        np.testing.assert_allclose(run[name], array, rtol=0, atol=within, err_msg=str(name))


def test_weights_that_are_not_felt_stay_to_the_last_digit() -> None:
    run = ss.train(ss.SeparateAttention(heads=3), TASKS["spectrum"], method=DESCENT, init_scale=0.3)
    keys = run.dataset["k"].to_numpy()
    moved = np.abs(keys - keys[:, :1]).max((0, 1, 2, 3))
    assert (moved > 0).tolist() == [True, False, True, False]


def test_drops_are_those_of_the_records_and_nothing_else_is_learned() -> None:
    model, task = ss.SeparateAttention(heads=3), TASKS["spectrum"]
    flow = ss.GradientFlow(until=4000.0)
    kept = ss.train(model, task, method=flow, init_scale=0.05, seeds=3, keep="drops")
    with _with_all_weights():
        whole = ss.train(model, task, method=flow, init_scale=0.05, seeds=3, keep="drops")
    assert kept.dataset["drop_time"].notnull().any()
    for name in ("drop_time", "learned_time", "plateau_loss", "final_loss"):
        np.testing.assert_allclose(kept.summary()[name], whole.summary()[name], rtol=1e-9)


def test_settings_of_different_rank_share_a_program_and_agree_with_runs_of_their_own() -> None:
    settings = [
        ss.Setting(
            ss.SeparateAttention(heads=3),
            task,
            DESCENT,
            init=ss.RandomStart(0.3),
            record=ss.Record(points=5),
        )
        for task in TASKS.values()
    ]
    for setting, run in zip(settings, ss.train_many(settings), strict=True):
        np.testing.assert_allclose(run.loss, ss.train(setting).loss, rtol=0, atol=1e-12)


def test_a_run_goes_on_where_it_ended() -> None:
    model, task = ss.SeparateAttention(heads=3), TASKS["covariance"]
    first, whole = (ss.GradientDescent(0.1, steps=steps) for steps in (100, 200))
    run = ss.train(model, task, method=first, init_scale=0.3)
    more = ss.train(model, task, method=first, start=run)
    straight = ss.train(model, task, method=whole, init_scale=0.3)
    for name in ("v", "k", "q"):
        ends = (one.dataset[name].to_numpy()[:, -1] for one in (more, straight))
        np.testing.assert_allclose(*ends, rtol=0, atol=1e-13)


def test_a_seed_that_diverges_has_no_record_of_any_weight() -> None:
    descent = ss.GradientDescent(learning_rate=0.4, steps=50)
    model, task = ss.SeparateAttention(heads=3), TASKS["spectrum"]
    run = ss.train(model, task, method=descent, init_scale=4.0, seeds=8)
    assert {one.result for one in run.outcomes} == {ss.Result.DIVERGED, ss.Result.FINISHED}
    recorded = np.isfinite(run.loss)
    keys = run.dataset["k"].to_numpy()
    assert (np.isfinite(keys).all((2, 3, 4)) == recorded).all()
    assert (np.isnan(keys).all((2, 3, 4)) == ~recorded).all()
