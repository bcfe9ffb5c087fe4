"""Values that cannot be meant: one line that names the field, before anything is allocated."""

import json
import shlex
from pathlib import Path

import pytest

from saddlescope.cli import main

# What is asked for, what the line names, and what it says.
REFUSED = [
    ("train --heads five", "heads = 'five'", "must be a whole number"),
    ("train --heads 99999999999999999999", "heads", "at most 9223372036854775807"),
    ("train --heads 100000000 --seeds 2", "heads = 100000000", "GB"),
    ("train --rank 100000000", "rank = 100000000", "GB"),
    ("train --points 1000000000000", "record.points = 1000000000000", "GB"),
    ("train --points 1000000000000 --steps 3 --learning-rate .1", "record.points", "GB"),
    ("train --steps 3 --learning-rate .1 --batch-size 1000000000000", "batch_size", "GB"),
    (
        "train --context-length 1000000000000 --batch-size 8 --steps 3 --learning-rate .1",
        "context_length",
        "GB",
    ),
    ("train --spectrum power:99999999:1", "spectrum = ", "at most 10000"),
    ("train --spectrum white:99999999", "spectrum = ", "at most 10000"),
    ("train --spectrum 1,1e400", "spectrum", "finite"),
    ("train --context-length uniform:1:99999999999", "context_length", "lengths"),
    ("train --until 1e400", "until", "finite"),
    ("train --seeds 1e400", "seeds", "whole number"),
    ("train --label-noise 1e300", "label_noise = 1e+300", "float64"),
    ("predict --label-noise 1e300", "label_noise = 1e+300", "float64"),
    ("train --setting /dev/null", "setting = '/dev/null'", "is empty"),
    ("train --out", "out", "needs a value"),
    ("train --out ''", "out = ''", "must not be empty"),
    ("reproduce fig3 --out=", "out = ''", "must not be empty"),
    ("observe ''", "words = ''", "must not be empty"),
    ("measure log.csv --plot ''", "plot = ''", "must not be empty"),
    ("train --json=3", "json = '3'", "takes no value"),
    ("train --out /proc/below --until 1", "out = '/proc/below'", "cannot be used"),
    ("train --out file/below --until 1", "out = 'file/below'", "cannot be used"),
    ("reproduce fig3 --heads five", "heads = 'five'", "must be a whole number"),
    ("transformer induction --preset huge", "preset = 'huge'", "must be 'default' or 'large'"),
    ("transformer grokking --seeds 1e400", "seeds", "whole number"),
]


@pytest.mark.parametrize(("command", "named", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_the_line_names_the_field_and_the_reason(
    command: str,
    named: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    # What is refused for its size is refused on any machine.
    monkeypatch.setattr("saddlescope.running.memory.available_bytes", lambda: 2**33)
    with pytest.raises(SystemExit) as left:
        main(shlex.split(command))
    shown = capsys.readouterr()
    assert left.value.code == 2
    assert shown.out == ""
    assert shown.err.startswith("saddlescope: ")
    assert shown.err.count("\n") == 1
    assert named in shown.err
    assert reason in shown.err
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_start_beyond_float64_is_an_outcome_of_every_seed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "train --spectrum .6,.3 --heads 3 --seeds 2 --points 9 --steps 20 --learning-rate .02"
    with pytest.raises(SystemExit) as left:
        main([*shlex.split(words), "--init-scale", "1e300", "--json", "--out", str(tmp_path)])
    assert left.value.code == 1
    for seed in json.loads(capsys.readouterr().out)["seeds"]:
        assert seed["result"] == "diverged"
        assert seed["final_loss"] is None
        assert "try a smaller init_scale" in seed["message"]
