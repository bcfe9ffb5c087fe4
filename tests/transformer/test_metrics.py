"""Metrics on disk: in single precision there, in double precision back."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from saddlescope.errors import CannotRead, CannotWrite
from saddlescope.running import files
from saddlescope.running.files import Sealed
from saddlescope.transformer import load_metrics, save_metrics
from saddlescope.transformer._metrics import has_metrics, name_origin, remove_metrics

ORIGIN = name_origin("one", "a text")


def metrics() -> xr.Dataset:
    return xr.Dataset(
        {
            "loss": (("seed", "step"), np.array([[1 / 3, np.nan], [2.0, 1e-30]])),
            "diverged": ("seed", np.array([True, False])),
        },
        coords={"seed": [3, 7], "step": [0, 10]},
        attrs={"setting": "one", "inputs": "a text", "data": "another"},
    )


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_metrics_come_back_in_double_precision(tmp_path: Path) -> None:
    save_metrics(metrics(), tmp_path / "new" / "deep")
    found = load_metrics(tmp_path / "new" / "deep", ORIGIN)
    narrow = metrics()["loss"].to_numpy().astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(found["loss"], narrow)
    assert found["loss"].dtype == np.float64
    assert found["diverged"].dtype == bool
    assert found["diverged"].to_numpy().tolist() == [True, False]
    assert found["seed"].to_numpy().tolist() == [3, 7]
    assert found.attrs == metrics().attrs
    assert names(tmp_path / "new" / "deep") == ["manifest.json", "metrics.nc"]


def test_a_failure_while_writing_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_metrics(metrics(), tmp_path)

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_flush", full)
    with pytest.raises(CannotWrite, match="No space"):
        save_metrics(2 * metrics(), tmp_path)
    assert load_metrics(tmp_path)["loss"][1, 0] == 2
    assert names(tmp_path) == ["manifest.json", "metrics.nc"]


def test_a_kill_between_the_two_files_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New numbers under an old manifest are not vouched for."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    save_metrics(metrics(), tmp_path)
    monkeypatch.setattr(Sealed, "write", die)
    with pytest.raises(KeyboardInterrupt):
        save_metrics(2 * metrics(), tmp_path)
    with pytest.raises(CannotRead, match=r"metrics\.nc is not what was written"):
        load_metrics(tmp_path)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="there is no saved metrics"):
        load_metrics(tmp_path / "none")
    save_metrics(metrics(), tmp_path)
    with pytest.raises(CannotRead, match="belongs to another experiment"):
        load_metrics(tmp_path, name_origin("one", "another text"))
    (tmp_path / "metrics.nc").write_bytes(b"damaged")
    with pytest.raises(CannotRead, match="is damaged"):
        load_metrics(tmp_path)


def test_removing_takes_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    save_metrics(metrics(), tmp_path / "ours")
    save_metrics(metrics(), tmp_path / "shared")
    (tmp_path / "shared" / "notes.txt").write_text("mine")
    assert has_metrics(tmp_path / "shared")
    for name in ("ours", "shared", "none"):
        remove_metrics(tmp_path / name)
        assert not has_metrics(tmp_path / name)
    assert names(tmp_path) == ["shared"]
    assert names(tmp_path / "shared") == ["notes.txt"]
