"""Damaged files: one line that says so, and never other numbers than were saved."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import saddlescope as ss
from saddlescope.cli import main
from saddlescope.dynamics._checkpoint import read_checkpoint, write_checkpoint
from saddlescope.errors import CannotRead

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
LEAVES = (np.arange(3), np.array([True, False, True]), np.linspace(0, 1, 12).reshape(3, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    method = ss.GradientDescent(0.2, 5000)
    model = ss.SeparateAttention(heads=3)
    record = ss.Record(points=200, weights=False)
    return ss.train(model, TASK, method=method, init_scale=0.1, seeds=3, record=record)


@pytest.fixture(scope="module")
def saved(run: ss.Trajectory, folder: Path) -> Path:
    return run.save(folder / "saved")


def checkpoint_bytes(folder: Path) -> bytes:
    path = folder / "whole.npz"
    write_checkpoint(path, "abc", LEAVES)
    return path.read_bytes()


def assert_refused_or_intact(folder: Path, content: bytes) -> None:
    path = folder / "damaged.npz"
    path.write_bytes(content)
    complaint = f"checkpoint = {str(path)!r}: is damaged; remove it to start anew"
    try:
        leaves = read_checkpoint(path, "abc")
    except CannotRead as refusal:
        leaves, complaint = LEAVES, str(refusal)
    assert complaint.endswith("is damaged; remove it to start anew") or "belongs" in complaint
    assert "\n" not in complaint
    assert str(path) in complaint
    assert leaves is not None
    for stored, leaf in zip(leaves, LEAVES, strict=True):
        np.testing.assert_array_equal(stored, leaf)


@given(st.floats(0, 1), st.integers(1, 255))
def test_a_checkpoint_with_a_wrong_byte_is_refused(folder: Path, place: float, change: int) -> None:
    content = bytearray(checkpoint_bytes(folder))
    content[int(place * (len(content) - 1))] ^= change
    assert_refused_or_intact(folder, bytes(content))


@given(st.floats(0, 1))
@example(0.0)
def test_a_checkpoint_cut_short_is_refused(folder: Path, share: float) -> None:
    content = checkpoint_bytes(folder)
    assert_refused_or_intact(folder, content[: int(share * len(content))])


@given(st.binary(max_size=200))
@example(b"words\n")
@example(b"\x93NUMPY\x01\x00")
def test_what_is_no_checkpoint_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "other.npz"
    path.write_bytes(content)
    with pytest.raises(CannotRead, match="damaged"):
        read_checkpoint(path, "abc")


def test_the_command_says_that_its_checkpoint_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")
    (tmp_path / "checkpoint.npz").write_bytes(b"words")
    with pytest.raises(SystemExit) as end:
        main(["train", "--until", "1", "--out", str(tmp_path)])
    assert end.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "is damaged; remove it to start anew" in complaint


def files_of(saved: Path) -> list[Path]:
    return sorted(path.relative_to(saved) for path in saved.rglob("*") if path.is_file())


def load_or_refuse(path: Path, run: ss.Trajectory) -> ss.Trajectory:
    """The run that is read, or the run itself where reading is refused in one line."""
    complaint = str(path)
    try:
        read = ss.load(path)
    except CannotRead as refusal:
        read, complaint = run, str(refusal)
    assert "\n" not in complaint
    assert str(path) in complaint
    return read


@pytest.mark.parametrize("damage", ["removed", "cut", "garbled"])
def test_a_run_with_a_damaged_file_is_refused_or_whole(
    damage: str, saved: Path, run: ss.Trajectory, tmp_path: Path
) -> None:
    wrong = []
    for name in files_of(saved):
        copy = tmp_path / "copy"
        shutil.copytree(saved, copy)
        target, content = copy / name, (saved / name).read_bytes()
        if damage == "removed":
            target.unlink()
        elif damage == "cut":
            target.write_bytes(content[: len(content) // 2])
        else:
            middle = len(content) // 2
            changed = bytes(byte ^ 0x55 for byte in content[middle : middle + 4])
            target.write_bytes(content[:middle] + changed + content[middle + 4 :])
        read = load_or_refuse(copy, run)
        if not (read.equals(run) and all(map(np.array_equal, read.state, run.state))):
            wrong.append(str(name))
        shutil.rmtree(copy)
    assert wrong == [], "read without complaint, and other than it was saved"


def rewritten(saved: Path, tmp_path: Path, **attributes: object) -> Path:
    """A copy of the saved run whose own attributes are changed."""
    copy = tmp_path / "copy"
    shutil.copytree(saved, copy)
    meta = json.loads((copy / "zarr.json").read_text())
    meta["attributes"].update(attributes)
    (copy / "zarr.json").write_text(json.dumps(meta))
    return copy


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"saddlescope_format": 1}, "has format 1, this version reads format 2"),
        ({"saddlescope_format": None}, "has format None"),
        ({"setting": "{"}, "is damaged"),
        ({"setting": "[]"}, "is damaged"),
        ({"setting": 5}, "is damaged"),
        ({"outcomes": None}, "is damaged"),
        ({"time_start": "soon"}, "is damaged"),
    ],
    ids=str,
)
def test_wrong_attributes_cannot_be_read(
    attributes: dict[str, object], message: str, saved: Path, tmp_path: Path
) -> None:
    path = rewritten(saved, tmp_path, **attributes)
    with pytest.raises(CannotRead, match=message) as refusal:
        ss.load(path)
    assert "\n" not in str(refusal.value)


def test_a_run_of_a_newer_setting_says_which_field(
    saved: Path, run: ss.Trajectory, tmp_path: Path
) -> None:
    newer = {**run.setting.to_dict(), "temperature": 1.0}
    path = rewritten(saved, tmp_path, setting=json.dumps(newer))
    with pytest.raises(ss.SaddlescopeError, match="temperature") as refusal:
        ss.load(path)
    assert "\n" not in str(refusal.value)
