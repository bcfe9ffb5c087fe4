"""Saved runs come back equal, and whole or not at all."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import saddlescope as ss
from saddlescope import storage
from saddlescope.errors import CannotRead, CannotWrite, Interrupted, InvalidInput
from saddlescope.running.files import Sealed

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
DESCENT = ss.GradientDescent(0.2, 5000)
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]


def train(**changes) -> ss.Trajectory:
    arguments = {"method": DESCENT, "seeds": 3, "record": 200, **changes}
    return ss.train(MODEL, arguments.pop("task", TASK), **arguments)


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    return train(init_scale=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"init_scale": 0.1},
        {"method": ss.GradientFlow(until=2000), "init_scale": 0.1},
        {"record": ss.Record(points=200, weights=False)},
        {"seeds": [5, 2, 9]},
        {"task": TASK.sample(30)},
        {"task": ss.InContextRegression(TURN @ np.diag([0.6, 0.3]) @ TURN.T, [5, 9])},
        {"method": ss.GradientDescent(3.0, 500), "init_scale": 0.1},
        {"init": ss.FixedPointStart((1,), 0.1)},
        {"record": [1.0, 70.0, 4000.0]},
    ],
    ids=["descent", "flow", "no weights", "seeds", "data", "rotated", "diverged", "init", "at"],
)
def test_a_run_comes_back_equal(changes: dict, tmp_path: Path) -> None:
    run = train(**changes)
    again = ss.load(run.save(tmp_path / "run"))
    assert again.equals(run)
    assert again.setting == run.setting
    assert again.outcomes == run.outcomes
    for stored, leaf in zip(again.state, run.state, strict=True):
        assert stored.dtype == leaf.dtype
        np.testing.assert_array_equal(stored, leaf)


def test_given_weights_come_back_too(tmp_path: Path, run: ss.Trajectory) -> None:
    # 40 seeds of weights are too many to be written into the setting: they lie beside it.
    weights = ss.RandomStart().ensemble(MODEL, TASK, np.arange(40))
    short = train(weights=weights, seeds=[39, 0], record=5, method=ss.GradientDescent(0.2, 10))
    again = ss.load(short.save(tmp_path / "run"))
    assert again.equals(short)
    np.testing.assert_array_equal(again.setting.init.arrays["k"], weights["k"])


def test_a_loaded_run_goes_on_as_the_run_itself(tmp_path: Path) -> None:
    first = train(method=ss.GradientFlow(until=500), init_scale=0.1)
    loaded = ss.load(first.save(tmp_path / "first"))
    method = ss.GradientFlow(until=2000)
    onward = train(method=method, start=loaded, seeds=None)
    assert onward.equals(train(method=method, start=first, seeds=None))
    assert onward.time_start == 500.0
    again = ss.load(onward.save(tmp_path / "second"))
    assert again.equals(onward)
    assert again.time_start == 500.0


@pytest.mark.usefixtures("short_segments")
def test_an_interrupted_run_is_saved_and_finished(tmp_path: Path, run: ss.Trajectory) -> None:
    with pytest.raises(Interrupted) as stopped:
        train(init_scale=0.1, observers=[ss.StopWhen(lambda snapshot: snapshot.share > 0.3)])
    part = ss.load(stopped.value.snapshot.result.save(tmp_path / "part"))
    assert not part.is_complete
    assert ss.resume(part).equals(run)


def test_an_existing_run_is_replaced_only_when_told_to(tmp_path: Path, run: ss.Trajectory) -> None:
    path = run.save(tmp_path / "deep" / "run")
    assert path == tmp_path / "deep" / "run"
    other = train(init_scale=0.2)
    with pytest.raises(InvalidInput, match=r"path = .*exists already; overwrite=True replaces it"):
        other.save(path)
    assert ss.load(path).equals(run)
    other.save(path, overwrite=True)
    assert ss.load(path).equals(other)
    assert [entry.name for entry in path.parent.iterdir()] == ["run"]


def test_a_save_that_fails_leaves_the_old_run(
    tmp_path: Path, run: ss.Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run.save(tmp_path / "run")

    def fail(*_: object) -> None:
        raise OSError(28, "disk full")

    monkeypatch.setattr(storage, "_write", fail)
    with pytest.raises(CannotWrite, match="cannot be written: disk full"):
        train(init_scale=0.2).save(path, overwrite=True)
    monkeypatch.undo()
    assert ss.load(path).equals(run)
    # What the failed one left does not stand in the way of the next.
    train(init_scale=0.2).save(path, overwrite=True)


def test_a_saved_run_is_zarr_that_others_read(tmp_path: Path, run: ss.Trajectory) -> None:
    path = run.save(tmp_path / "run")
    root = json.loads((path / "zarr.json").read_text())
    assert root["zarr_format"] == 3
    opened = xr.open_zarr(path, group="dataset", consolidated=False, chunks=None)
    np.testing.assert_array_equal(opened["loss"], run.loss)


def test_a_path_may_be_text(tmp_path: Path, run: ss.Trajectory) -> None:
    run.save(str(tmp_path / "run"))
    assert ss.load(str(tmp_path / "run")).equals(run)


def test_what_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="there is no saved run"):
        ss.load(tmp_path / "nothing")
    (tmp_path / "file").write_text("words")
    with pytest.raises(CannotRead, match="there is no saved run"):
        ss.load(tmp_path / "file")


def test_a_zarr_folder_of_someone_else_is_no_saved_run(tmp_path: Path, run: ss.Trajectory) -> None:
    path = run.save(tmp_path / "run")
    shutil.copytree(path / "dataset", tmp_path / "other")
    with pytest.raises(CannotRead, match=r"no saved run \(it has no manifest\)"):
        ss.load(tmp_path / "other")


def test_what_is_added_to_a_run_is_not_read(tmp_path: Path, run: ss.Trajectory) -> None:
    """zarr would take a chunk, an array or a group that lies there, of whatever format."""
    path = run.save(tmp_path / "run")
    shutil.copytree(path / "dataset" / "loss", path / "dataset" / "gain")
    (path / "dataset" / ".zgroup").write_text('{"zarr_format": 2}')
    assert ss.load(path).equals(run)


def test_data_are_checked_when_they_are_read(tmp_path: Path, run: ss.Trajectory) -> None:
    path = run.save(tmp_path / "run")
    for chunk in (path / "dataset" / "k" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    sealed = Sealed.read(path, "run")
    store = zarr.storage.MemoryStore(storage._Checked(sealed), read_only=True)
    lazy = xr.open_zarr(store, group="dataset", consolidated=False, zarr_format=3, chunks=None)
    np.testing.assert_array_equal(lazy["loss"], run.loss)
    with pytest.raises(CannotRead, match="dataset/k/c"):
        lazy["k"].load()
