"""Stores: what is there is never computed twice, what is damaged is said and made again."""

import asyncio
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tests.faults.test_full_disk import full_beyond
from tests.sweep.conftest import BASE, make_sweep
from zarr.core.sync import sync
from zarr.storage import LocalStore

import saddlescope as ss
from saddlescope.errors import CannotRead, CannotWrite, Interrupted
from saddlescope.running.files import files_in
from saddlescope.running.lock import hold
from saddlescope.sweep import _manifest
from saddlescope.sweep.subjects import Status

Batches = Callable[[], list[int]]


def bits(store: Path) -> dict[str, bytes]:
    """All files but those of the lock."""
    names = [name for name in files_in(store) if Path(name).name not in (".lock", ".holder")]
    return {name: (store / name).read_bytes() for name in names}


def test_the_array_holds_what_each_setting_gives(finished: Path) -> None:
    array = ss.Sweep.open(finished)
    assert array["final_loss"].dims == ("init_scale", "context_length", "seed")
    assert array["drop_time"].dims[-1] == "drop"
    assert (array["status"] == 1).all()
    for scale, length in ((0.05, 10), (0.2, 31)):
        setting = BASE.replace(init_scale=scale, context_length=length)
        run = ss.train(setting.replace(keep="drops"))
        point = array.sel(init_scale=scale, context_length=length)
        few = run.summary()
        np.testing.assert_allclose(point["final_loss"], few["final_loss"], rtol=1e-12)
        np.testing.assert_allclose(point["drop_time"], few["drop_time"], rtol=1e-9)
        drops = np.isfinite(few["drop_time"].to_numpy()).sum(1)
        assert point["drops"].to_numpy().tolist() == drops.tolist()
        predicted = ss.predict(setting, by="quadrature")
        times = [[np.nan if t is None else t for t in s.drop_times] for s in predicted.seeds]
        np.testing.assert_allclose(point["predicted_drop_time"], times, rtol=1e-9)


def test_xarray_opens_it_along_rows_without_a_warning(finished: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = xr.open_zarr(finished, consolidated=False).load()
    assert rows["final_loss"].dims == ("row",)
    assert set(rows.coords) == {"init_scale", "context_length", "seed"}
    array = ss.Sweep.open(finished)
    for row in range(rows.sizes["row"]):
        one = rows.isel(row=row)
        where = {name: one[name].item() for name in rows.coords}
        assert array["final_loss"].sel(where).item() == one["final_loss"].item()


def test_a_finished_store_is_not_computed_again(copied: Path, count_batches: Batches) -> None:
    before = bits(copied)
    make_sweep().run(copied, workers=0)
    assert count_batches() == []
    assert bits(copied) == before


def test_what_was_interrupted_goes_on_to_the_same_bits(
    finished: Path, tmp_path: Path, count_batches: Batches
) -> None:
    with pytest.raises(Interrupted) as stopped:
        make_sweep().run(tmp_path / "store", workers=0, observers=[ss.StopWhen(lambda _: True)])
    partial = stopped.value.snapshot.dataset
    assert 0 < (partial["status"] == 1).sum() < partial["status"].size
    assert np.isnan(partial["final_loss"].where(partial["status"] == 0, drop=False)).any()
    xr.testing.assert_identical(ss.Sweep.open(tmp_path / "store"), partial)
    make_sweep().run(tmp_path / "store", workers=0)
    assert sorted(count_batches()) == [0, 1, 2], "each once"
    assert bits(tmp_path / "store") == bits(finished)


def test_what_was_computed_without_a_store_is_in_the_snapshot() -> None:
    with pytest.raises(Interrupted) as stopped:
        make_sweep().run(workers=0, observers=[ss.StopWhen(lambda snapshot: True)])
    assert np.isfinite(stopped.value.snapshot.dataset["final_loss"]).sum() == 4


@pytest.mark.parametrize("name", ["final_loss/c/1", "drop_time/c/1/0", "status/c/1", "reason/c/1"])
@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_a_damaged_chunk_is_said_and_computed_again(
    name: str,
    how: str,
    finished: Path,
    copied: Path,
    count_batches: Batches,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _damage(copied / name, how)
    # Without its status a batch was never there.
    is_said = not (name == "status/c/1" and how == "removed")
    if is_said:
        with pytest.raises(CannotRead, match=r"is damaged .* the same sweep command repairs it"):
            ss.Sweep.open(copied)
    with caplog.at_level(logging.WARNING, "saddlescope"):
        make_sweep().run(copied, workers=0)
    assert count_batches() == [1]
    said = [record.getMessage() for record in caplog.records]
    assert said == (["damaged batches are recomputed: 1"] if is_said else [])
    assert bits(copied) == bits(finished)


def test_no_read_is_left_behind_by_a_damaged_chunk(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = LocalStore.get

    async def slow(store: LocalStore, key: str, *rest: object, **named: object) -> object:
        if key.endswith("c/2"):
            await asyncio.sleep(0.2)
        return await get(store, key, *rest, **named)  # type: ignore[arg-type]

    async def count_pending() -> int:
        return len(asyncio.all_tasks()) - 1

    monkeypatch.setattr(LocalStore, "get", slow)
    _damage(copied / "final_loss/c/0", "flipped")
    with pytest.raises(CannotRead, match="is damaged"):
        ss.Sweep.open(copied)
    # asyncio would complain of such reads on standard error.
    assert sync(count_pending()) == 0


def test_all_chunks_of_an_array_may_be_gone(
    finished: Path, copied: Path, count_batches: Batches
) -> None:
    shutil.rmtree(copied / "final_loss" / "c")
    make_sweep().run(copied, workers=0)
    assert count_batches() == [0, 1, 2]
    assert bits(copied) == bits(finished)


@pytest.mark.parametrize(
    "name",
    ["about/manifest.json", "zarr.json", "final_loss/zarr.json", "seed/c/0", "seed/zarr.json"],
)
@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_a_damaged_description_is_written_again(
    name: str,
    how: str,
    finished: Path,
    copied: Path,
    count_batches: Batches,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _damage(copied / name, how)
    with caplog.at_level(logging.WARNING, "saddlescope"):
        make_sweep().run(copied, workers=0)
    assert count_batches() == []
    assert bits(copied) == bits(finished)
    if not (name == "about/manifest.json" and how == "removed"):
        assert len(caplog.records) == 1


@pytest.mark.parametrize("name", ["final_loss", "drop_time", "status", "init_scale", "seed"])
def test_an_array_without_its_description_is_said(name: str, copied: Path) -> None:
    (copied / name / "zarr.json").unlink()
    with pytest.raises(CannotRead, match=rf"is damaged \({name}/zarr.json is missing\); the same"):
        ss.Sweep.open(copied)


def test_a_store_that_lost_the_folder_of_its_manifest_has_it_again(
    finished: Path, copied: Path, count_batches: Batches
) -> None:
    shutil.rmtree(copied / "about")
    make_sweep().run(copied, workers=0)
    assert count_batches() == []
    assert bits(copied) == bits(finished)


def test_nothing_is_left_of_a_store_whose_two_manifests_are_damaged(copied: Path) -> None:
    for name in ("about/manifest.json", "zarr.json"):
        _damage(copied / name, "cut")
    with pytest.raises(CannotRead, match="is damaged"):
        make_sweep().run(copied, workers=0)


def test_another_plan_is_refused_with_what_changed(copied: Path) -> None:
    for changes, said in (
        ({"context_length": [10, 30]}, r"axes\.context_length was \[10, 31\] and is \[10, 30\]"),
        ({"keep": ["drops"]}, r"keep was .* and is \['drops'\]"),
        ({"heads": [3]}, r"axes\.heads was not there and is \[3\]"),
    ):
        with pytest.raises(ss.InvalidInput, match=said) as refusal:
            make_sweep(**changes).run(copied, workers=0)
        assert "has another plan" in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_other_code_is_refused_with_what_changed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_manifest, "modules_digest", lambda rooms, own: "0123")
    with pytest.raises(
        ss.InvalidInput, match=r"computed by another version: modules was \w+ and is 0123"
    ):
        make_sweep().run(copied, workers=0)


def test_grown_axes_are_appended(
    copied: Path, finished: Path, tmp_path: Path, count_batches: Batches
) -> None:
    larger = {"init_scale": [0.05, 0.07, 0.1, 0.2], "seeds": 3}
    extended = make_sweep(**larger).run(copied, workers=0, extend=True)
    assert min(count_batches()) == 3, "what was there is not computed again"
    old, whole = bits(finished), bits(copied)
    assert all(
        whole[name] == old[name]
        for name in old
        if "/c/" in name
        and name[-1] in "012"
        and name.split("/")[0] in ("final_loss", "drop_time", "status")
    )
    fresh = make_sweep(**larger).run(tmp_path / "fresh", workers=0)
    xr.testing.assert_equal(extended, fresh)
    # The same command goes on with it, and it can grow further.
    xr.testing.assert_identical(make_sweep(**larger).run(copied, workers=0), extended)
    again = make_sweep(**larger, context_length=[10, 20, 31]).run(copied, workers=0, extend=True)
    xr.testing.assert_equal(again.sel(context_length=[10, 31]), extended)


LARGER_POINTS = [
    ({}, {"heads": [1]}, {"heads": [1, 2, 3]}),
    (
        {"keep": ["trajectory"]},
        {"spectrum": [[0.6, 0.3]], "heads": [1]},
        {"spectrum": [[0.6, 0.3], [0.5, 0.3, 0.1, 0.05]], "heads": [1, 3]},
    ),
]


@pytest.mark.parametrize(("kept", "before", "after"), LARGER_POINTS)
def test_axes_grow_to_larger_points_and_what_was_there_stays_as_it_is(
    kept: dict[str, object],
    before: dict[str, object],
    after: dict[str, object],
    tmp_path: Path,
    count_batches: Batches,
    caplog: pytest.LogCaptureFixture,
) -> None:
    short = BASE.replace(points=5)
    store = tmp_path / "store"
    smaller, larger = (ss.Sweep(short, **kept, **axes) for axes in (before, after))  # type: ignore[arg-type]
    first = smaller.run(store, workers=0)
    old, done = bits(store), len(count_batches())
    extended = larger.run(store, workers=0, extend=True)
    chunks = [name for name in old if "/c/" in name and name.split("/")[0] in first.data_vars]
    assert chunks
    assert all(bits(store)[name] == old[name] for name in chunks)
    fresh = larger.run(tmp_path / "fresh", workers=0)
    xr.testing.assert_equal(extended, fresh)
    computed = count_batches()[done:]
    assert computed.count(0) == 1, "what was there is computed by the fresh sweep alone"
    xr.testing.assert_identical(larger.run(store, workers=0), extended)
    assert count_batches()[done:] == computed
    # A larger point has several files, and each of them is looked at.
    several = [
        name for name in bits(store) if name.startswith("drop_time/c/") and name[-2:] == "/1"
    ]
    several += [name for name in bits(store) if name.startswith("k/c/") and "/1/" in name[6:]]
    (store / several[0]).write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        xr.testing.assert_identical(larger.run(store, workers=0), extended)
    assert "damaged batches are recomputed" in caplog.text


def test_nothing_but_axes_may_grow(copied: Path) -> None:
    for changes, said in (
        ({"keep": ["drops"]}, "extend = 'keep': only axes may grow: keep was"),
        (
            {"init_scale": [0.05, 0.1]},
            r"axes\.init_scale = \[0\.05, 0\.1\]: must still have every value that was there",
        ),
        ({"spectrum": [[0.6, 0.3], [0.6, 0.3, 0.1]]}, r"axes = .*must be"),
    ):
        with pytest.raises(ss.InvalidInput, match=said):
            make_sweep(**changes).run(copied, workers=0, extend=True)


def test_seeds_are_added_as_an_axis(copied: Path) -> None:
    axes = {"init_scale": [0.05, 0.1, 0.2], "context_length": [10, 31]}
    with pytest.raises(ss.InvalidInput, match="seeds = 3: must stay 2: seeds are added as an axis"):
        ss.Sweep(BASE.replace(seeds=3), **axes).run(copied, workers=0, extend=True)
    array = make_sweep(seeds=[0, 1, 2]).run(copied, workers=0, extend=True)
    assert array["seed"].to_numpy().tolist() == [0, 1, 2]
    assert (array["status"] == Status.FINISHED).all()


def test_a_second_client_is_refused(copied: Path) -> None:
    with (
        hold(copied / "about", "out"),
        pytest.raises(ss.InvalidInput, match=r"(?<!about)': is in use by process"),
    ):
        make_sweep().run(copied, workers=0)


def test_what_is_no_sweep_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ss.InvalidInput, match="exists and is not a sweep: choose another"):
        make_sweep().run(tmp_path, workers=0)
    with pytest.raises(ss.InvalidInput, match="exists and is not a sweep: choose another"):
        make_sweep().run(tmp_path / "notes.txt", workers=0)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(CannotRead, match="there is no sweep"):
        ss.Sweep.open(tmp_path / "none")


def test_nothing_is_left_of_a_plan_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInput, match=r"heads = 0: .*\(at heads = 0\)"):
        ss.Sweep(BASE, heads=[3, 0]).run(tmp_path / "store", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_sweep_that_needs_dask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ss.InvalidInput, match="workers = 2: needs Dask: pip install"):
        make_sweep().run(tmp_path / "store", workers=2)
    assert list(tmp_path.iterdir()) == []


def test_code_that_only_draws_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    digested: list[str] = []

    def digest(rooms: object, own: list[Path]) -> str:
        digested.extend(path.name for path in own)
        return "0123"

    monkeypatch.setattr(_manifest, "modules_digest", digest)
    _manifest.code_versions()
    assert {"kernel.py", "batches.py", "_manifest.py"} <= set(digested)
    assert not {"page.py", "picture.py"} & set(digested)


def test_a_full_disk_stops_it_cleanly(tmp_path: Path, finished: Path) -> None:
    store = tmp_path / "store"
    stop = ss.StopWhen(lambda _: True)
    with pytest.raises(Interrupted):
        make_sweep().run(store, workers=0, observers=[stop])
    with full_beyond(10), pytest.raises(CannotWrite, match="cannot be written: File too large"):
        make_sweep().run(store, workers=0, observers=[])
    make_sweep().run(store, workers=0, observers=[])
    assert bits(store) == bits(finished)


def _damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "removed":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
