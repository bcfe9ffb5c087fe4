"""A setting as TOML, and its large arrays beside it."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from saddlescope.attention import BalancedStart, SeparateAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.toml import load_toml, save_toml, to_toml
from saddlescope.task import InContextRegression

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
PLAIN = Setting(SeparateAttention(5, 1), TASK, GradientFlow(until=20_000), seeds=3)


def test_there_and_back_through_toml(tmp_path: Path) -> None:
    path = tmp_path / "setting.toml"
    for setting in (
        PLAIN,
        PLAIN.replace(task=TASK.sample(30)),
        PLAIN.replace(init=BalancedStart(0.1)),
    ):
        save_toml(setting, path)
        values, arrays = load_toml(path)
        assert Setting.from_dict(values, arrays) == setting
        assert (tmp_path / "setting.npz").exists() == (setting.task is not TASK)
        (tmp_path / "setting.npz").unlink(missing_ok=True)
    text = to_toml(PLAIN)
    assert "spectrum = [0.4, 0.3, 0.2, 0.1]" in text
    assert "converged" not in text, "empty fields are left out"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[model", "is no TOML"), ("", "is empty"), ("seeds = 3\nmodel = 5\n", "is missing")],
)
def test_a_file_that_is_no_setting_is_refused_in_one_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "setting.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=problem) as refusal:
        Setting.from_dict(*load_toml(path))
    assert "\n" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_toml(tmp_path / "nowhere.toml")


def test_short_arrays_stand_on_one_line_and_long_ones_do_not() -> None:
    short, long = (PLAIN.replace(record=Record(at=np.arange(1.0, n))) for n in (9, 60))
    assert "at = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n" in to_toml(short)
    assert "at = [\n    1.0,\n    2.0,\n" in to_toml(long)
    assert max(map(len, to_toml(long).splitlines())) < 100
    for setting in (short, long):
        assert Setting.from_dict(tomllib.loads(to_toml(setting))) == setting


def test_large_arrays_are_handed_out_where_they_are_asked_for() -> None:
    arrays: dict[str, AnyArray] = {}
    text = to_toml(PLAIN.replace(task=TASK.sample(30)), arrays)
    named = tomllib.loads(text)["task"]
    assert set(arrays) == {named["x"]["array"], named["y"]["array"]}
    assert named["x"]["shape"] == [30, 32, 4]


def test_a_damaged_archive_beside_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "setting.toml"
    save_toml(PLAIN.replace(task=TASK.sample(30)), path)
    (tmp_path / "setting.npz").write_bytes(b"PK of another kind")
    with pytest.raises(InvalidInput, match=r"setting\.npz'?: is no archive of arrays, or damaged"):
        load_toml(path)
    (tmp_path / "setting.npz").unlink()
    with pytest.raises(InvalidInput, match=r"task\.\w+ = .*data that is not at hand"):
        Setting.from_dict(*load_toml(path))
