"""Checkpoints: tied to their run, whole or not at all, and never the cause of a loss."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from saddlescope.errors import CannotRead, CannotWrite, Interrupted, InvalidInput
from saddlescope.running import Checkpoint, StopWhen, _checkpoint
from saddlescope.running.loop import run_job


def interrupt(job, path: Path, share: float = 0.5) -> None:
    with pytest.raises(Interrupted):
        run_job(job, [Checkpoint(path), StopWhen(lambda snapshot: snapshot.share >= share)])


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if not file.name.startswith("."))


def test_the_same_call_goes_on(counting, tmp_path: Path) -> None:
    interrupt(counting(), tmp_path / "c")
    job = counting()
    checkpoint = Checkpoint(tmp_path / "c")
    assert run_job(job, [checkpoint]) == list(range(100))
    assert len(job.budgets) == 5, "it began anew"
    checkpoint.remove()
    assert not (tmp_path / "c").exists()


def test_only_what_is_new_is_written_and_one_state_is_kept(
    counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = _checkpoint.write_bytes

    def note(path: Path, content: bytes) -> None:
        written.append(path.name)
        write(path, content)

    monkeypatch.setattr(_checkpoint, "write_bytes", note)
    run_job(counting(end=30), [Checkpoint(tmp_path, every=0)])
    states = [f"state-{number:06d}.npz" for number in (1, 2, 3)]
    records = [f"record-{number:06d}.npz" for number in (0, 1, 2)]
    assert written == [name for pair in zip(records, states, strict=True) for name in pair]
    assert names(tmp_path) == ["manifest.json", *records, states[-1]]


def test_another_runs_checkpoint_is_refused_or_replaced(counting, tmp_path: Path) -> None:
    interrupt(counting(), tmp_path)
    with pytest.raises(CannotRead, match="belongs to another setting; remove it to start anew"):
        run_job(counting(end=50), [Checkpoint(tmp_path)])
    job = counting(end=50)
    assert len(run_job(job, [Checkpoint(tmp_path, replace=True, every=0)])) == 50
    assert len(job.budgets) == 5


def test_replacing_goes_on_from_ones_own(counting, tmp_path: Path) -> None:
    interrupt(counting(), tmp_path)
    job = counting()
    run_job(job, [Checkpoint(tmp_path, replace=True)])
    assert len(job.budgets) == 5


def test_the_right_digest_with_wrong_leaves_is_refused(counting, tmp_path: Path) -> None:
    class Other(counting):
        def save(self, state):
            saved = super().save(state)
            return type(saved)(saved.state[:1], saved.records)

    interrupt(Other(), tmp_path)
    with pytest.raises(CannotRead, match="state is not one of this count's"):
        run_job(counting(), [Checkpoint(tmp_path)])


def test_a_kill_at_any_file_leaves_a_checkpoint_or_none(
    counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = _checkpoint.write_bytes
    for last in range(1, 9):
        folder, left = tmp_path / str(last), iter(range(last - 1))

        def write_or_die(path: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                path.with_name(f".unfinished-{path.name}").write_bytes(content[:7])
                raise KeyboardInterrupt
            write(path, content)

        monkeypatch.setattr(_checkpoint, "write_bytes", write_or_die)
        with pytest.raises(KeyboardInterrupt):
            run_job(counting(), [Checkpoint(folder, every=0)])
        monkeypatch.undo()
        checkpoint = Checkpoint(folder)
        assert run_job(counting(), [checkpoint]) == list(range(100))
        checkpoint.remove()
        assert not folder.exists()


def test_a_full_disk_is_said_once_and_the_result_comes(
    counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise CannotWrite(path, OSError(28, "No space left on device"))

    monkeypatch.setattr(_checkpoint, "write_bytes", full)
    with caplog.at_level(logging.WARNING, "saddlescope"):
        assert len(run_job(counting(), [Checkpoint(tmp_path, every=0)])) == 100
    (message,) = [record.getMessage() for record in caplog.records]
    assert "No space left on device; the run goes on without its checkpoint" in message


def test_a_path_makes_no_trail_of_folders(counting, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"checkpoint = .*cannot be used"):
        run_job(counting(), [Checkpoint(tmp_path / "a" / "b" / "c")])
    assert not (tmp_path / "a").exists()
    interrupt(counting(), tmp_path / "b" / "c")
    (tmp_path / "file").write_text("words")
    with pytest.raises(InvalidInput, match="must be a folder"):
        run_job(counting(), [Checkpoint(tmp_path / "file")])


def test_removing_leaves_what_is_not_ours(counting, tmp_path: Path) -> None:
    interrupt(counting(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    Checkpoint(tmp_path).remove()
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    Checkpoint(tmp_path / "none").remove()


def test_two_runs_cannot_share_one(counting, tmp_path: Path) -> None:
    def second(_: object) -> None:
        with pytest.raises(InvalidInput, match="in use by process"):
            run_job(counting(), [Checkpoint(tmp_path)])

    run_job(counting(), [Checkpoint(tmp_path), second])
