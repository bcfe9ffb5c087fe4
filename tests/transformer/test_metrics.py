"""Metrics on disk: in single precision there, in double precision back."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from saddlescope.errors import CannotRead
from saddlescope.transformer import load_metrics, save_metrics


def metrics() -> xr.Dataset:
    return xr.Dataset(
        {
            "loss": (("seed", "step"), np.array([[1 / 3, np.nan], [2.0, 1e-30]])),
            "diverged": ("seed", np.array([True, False])),
        },
        coords={"seed": [3, 7], "step": [0, 10]},
        attrs={"setting": "one", "data": "another"},
    )


def test_metrics_come_back_in_double_precision(tmp_path: Path) -> None:
    save_metrics(metrics(), tmp_path / "new" / "metrics.nc")
    found = load_metrics(tmp_path / "new" / "metrics.nc", "one")
    narrow = metrics()["loss"].to_numpy().astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(found["loss"], narrow)
    assert found["loss"].dtype == np.float64
    assert found["diverged"].dtype == bool
    assert found["diverged"].to_numpy().tolist() == [True, False]
    assert found["seed"].to_numpy().tolist() == [3, 7]
    assert found.attrs == metrics().attrs
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["metrics.nc"]


def test_a_failure_while_writing_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_metrics(metrics(), tmp_path / "metrics.nc")
    before = (tmp_path / "metrics.nc").read_bytes()

    def full(dataset: xr.Dataset, path: Path, **options: str) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", full)
    with pytest.raises(OSError, match="no space"):
        save_metrics(metrics(), tmp_path / "metrics.nc")
    assert (tmp_path / "metrics.nc").read_bytes() == before


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.nc"
    with pytest.raises(CannotRead, match="no such file"):
        load_metrics(path)
    save_metrics(metrics(), path)
    with pytest.raises(CannotRead, match="older format"):
        load_metrics(path, setting="other")
    save_metrics(metrics().assign_attrs(setting='{"format": 2}'), path)
    with pytest.raises(CannotRead, match="another experiment"):
        load_metrics(path, "two")
    path.write_bytes(b"damaged")
    with pytest.raises(CannotRead, match="is damaged"):
        load_metrics(path)
