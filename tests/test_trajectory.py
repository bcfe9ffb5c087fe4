"""The one result of training."""

import dataclasses
import json

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.trajectory import Outcome, Outcomes, Result, versions

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    method = ss.GradientDescent(0.2, 5000)
    return ss.train(MODEL, TASK, method=method, init_scale=0.1, seeds=[4, 0, 2], record=200)


def test_attributes_tell_setting_and_versions(run: ss.Trajectory) -> None:
    stored = json.loads(run.dataset.attrs["setting"])
    assert Setting.from_dict(stored) == run.setting
    assert run.dataset.attrs["digest"] == run.setting.digest
    assert json.loads(run.dataset.attrs["versions"]) == versions()
    assert {"python", "saddlescope", "jax", "diffrax", "numpy"} <= set(versions())
    assert run.dataset["time"].attrs["long_name"] == "flow time"


def test_weights_of_a_point(run: ss.Trajectory) -> None:
    every = run.weights(index=3)
    assert {name: array.shape for name, array in every.items()} == {
        name: (3, *shape) for name, shape in MODEL.shapes(2).items()
    }
    one = run.weights(seed=2, index=3)
    for name, array in one.items():
        np.testing.assert_array_equal(array, every[name][2])
    start = ss.RandomStart(0.1).weights(MODEL, TASK, 2)
    for name, array in run.weights(seed=2, index=0).items():
        np.testing.assert_array_equal(array, start[name])


def test_stages_are_those_of_each_seeds_curve(run: ss.Trajectory) -> None:
    for stages in run.stages():
        assert [len(stages.plateaus), len(stages.drops)] == [3, 2]
        levels = [plateau.level for plateau in stages.plateaus]
        # The plateaus of T7, as flat as a start of scale .1 leaves them.
        np.testing.assert_allclose(levels, [0.9, 0.34478, 0.07906], atol=0.01)


def test_stages_skip_what_a_diverged_seed_has_not(run: ss.Trajectory) -> None:
    loss = run.dataset["loss"].copy()
    loss[1, 100:] = np.nan
    broken = dataclasses.replace(run, dataset=run.dataset.assign(loss=loss))
    found = broken.stages()
    assert len(found) == 3
    assert found[1].plateaus[-1].end <= run.time[99]


def test_repr_tells_how_it_ended(run: ss.Trajectory) -> None:
    expected = "Trajectory(SeparateAttention, 3 seeds, 200 points to time 2000: 3 finished)"
    assert repr(run) == expected
    outcomes = Outcomes.of(Outcome(Result.DIVERGED, "why"), *[Outcome(Result.FINISHED)] * 2)
    mixed = dataclasses.replace(run, outcomes=outcomes)
    assert repr(mixed).endswith("1 diverged, 2 finished)")
    one = dataclasses.replace(run, outcomes=Outcomes.of(Outcome(Result.FINISHED)))
    assert ", 1 seed, " in repr(one)


def test_equality_looks_at_everything(run: ss.Trajectory) -> None:
    assert run.equals(dataclasses.replace(run))
    changed = run.dataset.copy(deep=True)
    changed["loss"][0, 5] += 1e-15
    for other in (
        dataclasses.replace(run, dataset=changed),
        dataclasses.replace(run, time_start=1.0),
        dataclasses.replace(
            run,
            outcomes=Outcomes.of(*[Outcome(Result.FINISHED)] * 2, Outcome(Result.CONVERGED)),
        ),
        dataclasses.replace(run, setting=dataclasses.replace(run.setting, seeds=(4, 0, 1))),
        "a run",
    ):
        assert not run.equals(other)


def test_a_trajectory_is_frozen(run: ss.Trajectory) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.setting = None  # type: ignore[misc, assignment]


def test_a_seed_is_a_label(run: ss.Trajectory) -> None:
    labelled = dataclasses.replace(run, setting=run.setting.replace(seeds=(3, 7, 5)))
    assert [labelled.index_of(seed) for seed in (3, 7, 5)] == [0, 1, 2]
    for name, array in labelled.weights(seed=7, index=4).items():
        np.testing.assert_array_equal(array, run.dataset[name][1, 4])
    for wrong in (0, 4, -1):
        with pytest.raises(InvalidInput, match=f"seed = {wrong}"):
            labelled.weights(seed=wrong)
    with pytest.raises(InvalidInput, match=r"seed = 0: the run has seeds 3, 7, 5"):
        labelled.plot(seed=0)
    in_order = dataclasses.replace(run, setting=run.setting.replace(seeds=3))
    with pytest.raises(InvalidInput, match=r"seed = 9: the run has seeds 0 to 2"):
        in_order.plot(seed=9)


def test_the_notebook_shows_picture_and_table(run: ss.Trajectory) -> None:
    html = run._repr_html_()
    assert html.count("<svg") == 1
    assert html.count("<tr>") == 1 + 3 * 2
    assert "3 finished" in html


def test_headline_names_are_all_there() -> None:
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    assert set(ss.__all__) <= set(dir(ss))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ss.nothing
