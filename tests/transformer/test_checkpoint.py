"""Arrays, decoders and unfinished trainings on disk: there and back, and what is refused."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.transformer import Decoder, DecoderShape, load_decoder, save_decoder
from saddlescope.transformer._checkpoint import (
    Folder,
    read_arrays,
    remove_checkpoint,
    write_arrays,
)

STATE = {"state.0": np.arange(3.0), "state.1": np.asarray(7, np.int32)}
RECORDS = [{"W_E": np.full((2, 3), place, np.float32)} for place in range(3)]


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "turned": np.arange(6.0).reshape(2, 3).T,
        "scalar": np.asarray(3, np.int32),
        "truth": np.array([True, False]),
    }
    write_arrays(tmp_path / "a.safetensors", arrays, {"said": "so"})
    found, about = read_arrays(tmp_path / "a.safetensors")
    assert about == {"said": "so"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_a_failure_while_writing_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"a": np.arange(3)}, {})

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_arrays(path, {"a": np.arange(4)}, {})
    assert read_arrays(path)[0]["a"].tolist() == [0, 1, 2]


def test_a_decoder_comes_back_as_it_was(tmp_path: Path) -> None:
    shape = DecoderShape(
        5, 4, layers=1, heads=2, d_model=4, positions="rotary", d_mlp=3, activation="gelu"
    )
    decoder = Decoder.start(shape, jax.random.key(0))
    save_decoder(tmp_path / "decoder.safetensors", decoder)
    loaded = load_decoder(tmp_path / "decoder.safetensors")
    assert loaded.shape == shape
    assert list(loaded.weights) == list(shape.weights)
    for name, array in decoder.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], array)


def test_what_is_no_decoder_is_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "other.safetensors", {"a": np.arange(3)}, {})
    with pytest.raises(CannotRead, match="holds no decoder"):
        load_decoder(tmp_path / "other.safetensors")
    with pytest.raises(CannotRead, match="No such file"):
        load_decoder(tmp_path / "none.safetensors")


def test_a_training_comes_back_with_its_records(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "digest")
    assert folder.read() is None
    folder.write(STATE, RECORDS[:2])
    folder.write(STATE, RECORDS)
    saved = Folder(tmp_path / "run", "digest").read()
    assert saved is not None
    state, records = saved
    assert set(state) == set(STATE)
    for name, array in STATE.items():
        np.testing.assert_array_equal(state[name], array)
        assert state[name].dtype == array.dtype
    for found, record in zip(records, RECORDS, strict=True):
        np.testing.assert_array_equal(found["W_E"], record["W_E"])


def test_only_new_records_are_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "digest")
    folder.write(STATE, RECORDS[:2])
    (tmp_path / "record_000000.safetensors").unlink()
    again = Folder(tmp_path, "digest")
    with pytest.raises(CannotRead, match="record_000000"):
        again.read()
    folder.write(STATE, RECORDS)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "record_000001.safetensors",
        "record_000002.safetensors",
        "state.safetensors",
    ]


def test_records_beyond_the_state_are_not_read(tmp_path: Path) -> None:
    """As a kill leaves them, between the records and the state."""
    Folder(tmp_path, "digest").write(STATE, RECORDS[:1])
    write_arrays(tmp_path / "record_000001.safetensors", RECORDS[1], {})
    saved = Folder(tmp_path, "digest").read()
    assert saved is not None
    assert len(saved[1]) == 1


def test_another_trainings_folder_is_refused(tmp_path: Path) -> None:
    Folder(tmp_path, "one").write(STATE, RECORDS)
    with pytest.raises(CannotRead, match="belongs to another training"):
        Folder(tmp_path, "another").read()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="must be a folder"):
        Folder(tmp_path / "file", "one")


def test_removing_a_checkpoint_leaves_other_files(tmp_path: Path) -> None:
    Folder(tmp_path / "run", "digest").write(STATE, RECORDS)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    remove_checkpoint(tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["notes.txt"]
    remove_checkpoint(tmp_path / "none")
