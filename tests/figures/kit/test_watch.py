"""Progress of parts within parts, and runs that survive."""

from pathlib import Path

import numpy as np

import saddlescope as ss
from saddlescope.attention import RandomStart
from saddlescope.dynamics import Record
from saddlescope.figures import Watch
from saddlescope.figures.kit import watch as watch_module
from saddlescope.running.parts import Parts

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
SETTING = ss.Setting(
    ss.SeparateAttention(heads=3),
    TASK,
    ss.GradientFlow(until=300),
    RandomStart(0.1),
    Record(points=200),
    seeds=3,
)


def test_parts_of_parts_add_up() -> None:
    shares: list[float] = []
    watch = Watch(Parts(shares.append))
    for _ in watch.each("ab"):
        for _ in watch.each("cd"):
            pass
    assert shares == sorted(shares)
    assert {0.25, 0.5, 0.75, 1.0} <= set(shares)


def test_runs_worth_keeping_are_read_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(watch_module, "_WORTH_KEEPING", -1.0)
    watch = Watch(folder=tmp_path / "unfinished")
    first = watch.train("run", SETTING)
    monkeypatch.setattr(watch_module, "train", None)
    assert watch.train("run", SETTING).equals(first)


def test_a_torn_checkpoint_is_begun_anew(tmp_path: Path) -> None:
    watch = Watch(folder=tmp_path)
    (tmp_path / "run-checkpoint").mkdir()
    (tmp_path / "run-checkpoint" / "manifest.json").write_bytes(b"torn")
    run = watch.train("run", SETTING)
    np.testing.assert_array_equal(run.loss, Watch().train("run", SETTING).loss)
