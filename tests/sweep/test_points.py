"""What is kept of each point, and what one that diverges or fails costs the others: nothing."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tests.sweep.conftest import BASE, make_sweep

import saddlescope as ss


def test_a_diverged_point_has_its_reason_and_can_be_tried_again(
    tmp_path: Path, count_batches: Callable[[], list[int]]
) -> None:
    sweep = ss.Sweep(BASE, learning_rate=[0.2, 50.0], keep=["final_loss", "drops"])
    array = sweep.run(tmp_path / "store", workers=0)
    diverged = array.sel(learning_rate=50.0)
    assert (diverged["status"] == 3).all()
    assert all("try learning_rate" in text for text in diverged["reason"].to_numpy().tolist())
    assert (array.sel(learning_rate=0.2)["status"] == 1).all()
    before = len(count_batches())
    again = sweep.run(tmp_path / "store", workers=0, retry_failed=True)
    assert len(count_batches()) > before
    xr.testing.assert_identical(again, array)


@pytest.mark.parametrize("model", [ss.SeparateAttention(heads=3), ss.MergedAttention(heads=3)])
def test_a_start_that_overflows_diverges_without_a_warning(model: object) -> None:
    sweep = ss.Sweep(BASE.replace(model=model), init_scale=[1e200])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = sweep.run(workers=0)
    assert (array["status"] == 3).all()


def _fails_at_length_ten(run: ss.Trajectory) -> np.ndarray:
    if run.setting.task.fixed_length == 10:
        raise RuntimeError("no\nnumber")
    return run.loss[:, -1]


def test_a_point_that_fails_costs_no_other(tmp_path: Path) -> None:
    keep = ["final_loss", _fails_at_length_ten]
    array = make_sweep(keep=keep).run(tmp_path / "store", workers=0)
    failed, sound = array.sel(context_length=10), array.sel(context_length=31)
    assert (failed["status"] == 4).all()
    assert set(failed["reason"].to_numpy().ravel().tolist()) == {"RuntimeError: no number"}
    assert np.isnan(failed["final_loss"]).all()
    assert (sound["status"] == 1).all()
    xr.testing.assert_equal(sound["_fails_at_length_ten"].rename("final_loss"), sound["final_loss"])


def _leaves(run: ss.Trajectory) -> np.ndarray:
    sys.exit(3)


def test_a_measure_that_exits_costs_its_points_alone() -> None:
    array = make_sweep(init_scale=[0.1], keep=["final_loss", _leaves]).run(workers=0)
    assert set(array["reason"].to_numpy().ravel().tolist()) == {"SystemExit: 3"}


def _every_loss(run: ss.Trajectory) -> np.ndarray:
    return run.loss


def _first_loss(run: ss.Trajectory) -> np.ndarray:
    return run.loss[:1, 0]


def _no_number(run: ss.Trajectory) -> np.ndarray:
    return run.loss[:, 0] * 1j


@pytest.mark.parametrize("measure", [_every_loss, _first_loss, _no_number])
def test_a_measure_returns_one_number_per_seed(measure: Callable[..., object]) -> None:
    array = make_sweep(init_scale=[0.1], keep=["final_loss", measure]).run(workers=0)
    assert (array["status"] == 4).all()
    said = set(array["reason"].to_numpy().ravel().tolist())
    wanted = f"keep = {measure.__name__!r}: must return one number for each of 2 seeds"
    assert all(text.startswith(wanted) for text in said)


def test_an_axis_of_the_weights_and_one_of_the_plan_are_told_apart(tmp_path: Path) -> None:
    sweep = ss.Sweep(BASE.replace(points=2), rank=[1, 2], keep=["trajectory"])
    array = sweep.run(tmp_path / "store", workers=0)
    assert array["k"].dims == ("rank", "seed", "record", "head", "rank_index", "dim")
    second = array["k"].sel(rank_index=1)
    assert np.isnan(second.sel(rank=1)).all()
    assert np.isfinite(second.sel(rank=2)).all()


def test_trajectories_and_measures_are_kept(tmp_path: Path) -> None:
    base = BASE.replace(points=5)
    keep = ["trajectory", "effective_rank", "drop_time"]
    array = ss.Sweep(base, heads=[2, 3], keep=keep).run(workers=0)
    run = ss.train(base.replace(heads=2))
    point = array.sel(heads=2)
    np.testing.assert_allclose(point["time"][0], run.time)
    np.testing.assert_allclose(point["loss"], run.loss, rtol=1e-12)
    maps = run.dataset["effective_map"]
    np.testing.assert_allclose(point["effective_map"], maps, atol=1e-12)
    rank = ss.measure.effective_rank(maps.to_numpy()[:, -1])
    np.testing.assert_allclose(point["effective_rank"], rank, rtol=1e-6)
    assert np.isnan(point["v"][..., 2]).all(), "the third head of the other point"
