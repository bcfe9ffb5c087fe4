"""Checkpoints: whole or not at all, and tied to their run."""

from pathlib import Path

import numpy as np
import pytest

from saddlescope.dynamics._checkpoint import read_checkpoint, write_checkpoint
from saddlescope.errors import CannotRead

LEAVES = (np.arange(3), np.array(True), np.linspace(0, 1, 12).reshape(3, 4), np.zeros((3, 0, 2)))


def test_state_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "checkpoint.npz"
    write_checkpoint(path, "abc", LEAVES)
    leaves = read_checkpoint(path, "abc")
    assert leaves is not None
    assert len(leaves) == len(LEAVES)
    for stored, leaf in zip(leaves, LEAVES, strict=True):
        assert stored.dtype == leaf.dtype
        np.testing.assert_array_equal(stored, leaf)


def test_more_than_ten_leaves_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, "abc", [np.array(place) for place in range(25)])
    leaves = read_checkpoint(path, "abc")
    assert leaves is not None
    assert [int(leaf) for leaf in leaves] == list(range(25))


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "checkpoint.npz", "abc") is None


def test_a_checkpoint_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, "abc", LEAVES)
    write_checkpoint(path, "abc", [np.array(7)])
    leaves = read_checkpoint(path, "abc")
    assert leaves is not None
    assert [leaf.tolist() for leaf in leaves] == [7]
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_a_kill_while_writing_leaves_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, "abc", LEAVES)
    (tmp_path / "checkpoint.npz.part").write_bytes(b"half of a new on")
    leaves = read_checkpoint(path, "abc")
    assert leaves is not None
    np.testing.assert_array_equal(leaves[2], LEAVES[2])
    write_checkpoint(path, "abc", LEAVES)


def test_another_runs_checkpoint_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, "abc", LEAVES)
    with pytest.raises(CannotRead, match="belongs to another setting; remove it"):
        read_checkpoint(path, "abd")
