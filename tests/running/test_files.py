"""One way to disk: whole or not at all, nothing taken that is damaged, nothing removed not ours."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.errors import CannotRead, CannotWrite, InvalidInput
from saddlescope.running import files
from saddlescope.running.files import (
    MANIFEST,
    Sealed,
    as_path,
    find_folder,
    replacing,
    replacing_folder,
    write_bytes,
    write_text,
)


def sealed(path: Path, **content: str) -> Sealed:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        write_text(path / name, text)
    return Sealed(path, "thing", "abc", {"rate": 0.1, "name": "ü"}).write(*content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "one")
    write_text(tmp_path / "a.txt", "two")
    assert (tmp_path / "a.txt").read_text() == "two"
    assert names(tmp_path) == ["a.txt"]


def test_a_failure_while_writing_leaves_the_previous_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "one")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a.txt") as path:
        path.write_text(f"half of {1 / 0}")
    assert (tmp_path / "a.txt").read_text() == "one"


def test_a_full_disk_is_one_line_and_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CannotWrite, match="cannot be written: No space left on device"):
        write_bytes(tmp_path / "a.txt", b"one")
    assert names(tmp_path) == []


def test_a_forbidden_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file or directory"):
        write_text(tmp_path / "none" / "a.txt", "one")


@pytest.mark.parametrize("value", [3, None, b"a", "", "a\0b", ["a"]], ids=repr)
def test_what_names_no_path_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="path"):
        as_path("path", value)


def test_a_sealed_folder_comes_back(tmp_path: Path) -> None:
    sealed(tmp_path / "x", a="one", b="two")
    read = Sealed.read(tmp_path / "x", "thing")
    assert read.digest == "abc"
    assert read.about == {"rate": 0.1, "name": "ü"}
    assert (read.content("a"), read.content("b")) == (b"one", b"two")
    assert read.is_whole


def test_what_is_added_later_is_vouched_for_too(tmp_path: Path) -> None:
    first = sealed(tmp_path, a="one")
    write_text(tmp_path / "film", "frames")
    first.write("film")
    read = Sealed.read(tmp_path, "thing")
    assert set(read.files) == {"a", "film"}


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    sealed(tmp_path, a="one", b="two")
    if damage == "removed":
        (tmp_path / "a").unlink()
    else:
        (tmp_path / "a").write_text("on" if damage == "cut" else "onE")
    read = Sealed.read(tmp_path, "thing")
    assert not read.is_whole
    assert read.content("b") == b"two"
    with pytest.raises(CannotRead, match="a "):
        read.content("a")


def test_another_kind_and_another_format_are_refused(tmp_path: Path) -> None:
    sealed(tmp_path, a="one")
    with pytest.raises(CannotRead, match="holds a thing, not a run"):
        Sealed.read(tmp_path, "run")
    values = json.loads((tmp_path / MANIFEST).read_text())
    del values["checksum"]
    values["format"] = 99
    values["checksum"] = files._checksum_of(values)
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(CannotRead, match="has format 99, this version reads format 3"):
        Sealed.read(tmp_path, "thing")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"null", b"[" * 5000, b"\xff\xfe"])
def test_what_is_no_manifest_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(CannotRead, match="is damaged") as refusal:
        Sealed.read(tmp_path, "thing")
    assert "\n" not in str(refusal.value)


@given(st.floats(0, 1), st.integers(1, 255))
def test_a_manifest_with_a_wrong_byte_says_the_same_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, position: float, change: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "manifest"
    whole = sealed(folder, a="one")
    content = bytearray((folder / MANIFEST).read_bytes())
    content[int(position * (len(content) - 1))] ^= change
    (folder / MANIFEST).write_bytes(bytes(content))
    try:
        read = Sealed.read(folder, "thing")
    except CannotRead:
        return
    assert read == whole


def test_removing_takes_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    made = sealed(tmp_path / "x", a="one")
    (tmp_path / "x" / "notes.txt").write_text("mine")
    made.remove()
    assert names(tmp_path / "x") == ["notes.txt"]
    other = sealed(tmp_path / "y", a="one")
    other.remove()
    assert not (tmp_path / "y").exists()


def write_folder(path: Path, text: str, *, overwrite: bool = False) -> None:
    with replacing_folder(path, "thing", overwrite=overwrite) as folder:
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "a").write_text(text)
        Sealed(folder, "thing", "abc").write("deep/a")


def content_of(path: Path) -> bytes:
    return Sealed.read(find_folder(path), "thing").content("deep/a")


def test_a_folder_is_replaced_whole_and_only_when_told(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", "one")
    with pytest.raises(InvalidInput, match="overwrite=True replaces it"):
        write_folder(tmp_path / "x", "two")
    assert content_of(tmp_path / "x") == b"one"
    write_folder(tmp_path / "x", "two", overwrite=True)
    assert content_of(tmp_path / "x") == b"two"
    assert names(tmp_path) == ["x"]


def test_a_folder_that_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidInput, match="is no saved thing"):
        write_folder(tmp_path / "x", "one", overwrite=True)
    write_folder(tmp_path / "y", "one")
    (tmp_path / "y" / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidInput, match=r"thesis\.tex"):
        write_folder(tmp_path / "y", "two", overwrite=True)
    for folder in ("x", "y"):
        assert (tmp_path / folder / "thesis.tex").read_text() == "years of work"
    assert names(tmp_path) == ["x", "y"]


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    write_folder(tmp_path / "x", "one")
    assert content_of(tmp_path / "x") == b"one"


@pytest.mark.parametrize("renames", [1, 2])
def test_a_kill_while_a_folder_is_replaced_leaves_one_of_the_two(
    renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "x", "one")
    replace, calls = os.replace, 0

    def replace_then_die(source: Path, target: Path) -> None:
        nonlocal calls
        replace(source, target)
        calls += Path(source).name != ".unfinished-manifest.json"
        if calls == renames:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", replace_then_die)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "x", "two", overwrite=True)
    monkeypatch.undo()
    assert content_of(tmp_path / "x") == (b"one" if renames == 1 else b"two")
    write_folder(tmp_path / "x", "three", overwrite=True)
    assert content_of(tmp_path / "x") == b"three"
    assert names(tmp_path) == ["x"]
