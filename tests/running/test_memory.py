"""An ensemble that would not fit is refused before anything is allocated."""

import importlib
import tracemalloc
from pathlib import Path

import pytest

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.running import memory

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)


def test_what_does_not_fit_names_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 8_000_000_000)
    sizes = {"seeds": 10, "heads": 10**6, "rank": 1}
    memory.check_memory(10**9, sizes, "take fewer")
    with pytest.raises(InvalidInput) as refusal:
        memory.check_memory(10**9 + 1, sizes, "take fewer")
    assert str(refusal.value) == (
        "heads = 1000000: this would take 8 GB and 8 GB are free: take fewer"
    )
    with pytest.raises(InvalidInput, match="more GB than can be written"):
        memory.check_memory(10**400, sizes, "take fewer")


@pytest.mark.parametrize(
    ("model", "field"),
    [(ss.SeparateAttention(10**8), "heads"), (ss.SeparateAttention(2, 10**9), "rank")],
    ids=["heads", "rank"],
)
def test_a_model_that_would_not_fit_is_named(model: ss.SeparateAttention, field: str) -> None:
    with pytest.raises(InvalidInput, match="GB are free") as refusal:
        ss.train(model, TASK, method=ss.GradientFlow(until=10), record=2)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("line", "folder", "limit", "used", "cached"),
    [
        ("0::/slurm/job", "", "max", "current", "inactive_file"),
        ("4:cpu,memory:/job", "memory", "limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
    ],
    ids=["version 2", "version 1"],
)
def test_the_limit_of_a_container_or_a_job_counts(
    line: str,
    folder: str,
    limit: str,
    used: str,
    cached: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 9000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text(f"1:cpuset:/job\n{line}\n")
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    assert memory.available_bytes() == 9000 * 1024
    inner = tmp_path / "sys/fs/cgroup" / folder / line.split(":/")[1]
    inner.mkdir(parents=True)
    (inner / f"memory.{limit}").write_text("max\n")
    for name, text in ((limit, "5000"), (used, "3000"), ("stat", f"anon 1\n{cached} 400")):
        (inner.parent / f"memory.{name}").write_text(f"{text}\n")
    assert memory.available_bytes() == 2400


def test_free_memory_is_between_nothing_and_everything() -> None:
    assert 2**20 < memory.available_bytes() < 2**50


@pytest.mark.parametrize(
    ("seeds", "record"),
    [(1000, 10**8), (1, 10**12), (10_000, ss.Record(points=10**8, weights=False))],
    ids=["seeds", "points", "losses alone"],
)
def test_a_run_that_would_not_fit_is_refused_before_anything_is_allocated(
    seeds: int, record
) -> None:
    # Imported before memory is watched, which slows everything down.
    importlib.import_module("saddlescope.dynamics._job")

    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="GB are free"):
            ss.train(
                ss.MergedAttention(2),
                TASK,
                method=ss.GradientFlow(until=10),
                seeds=seeds,
                record=record,
            )
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Nothing of the records, whose grid alone would take 800 MB.
    assert highest < 100e6


def test_more_seeds_than_an_ensemble_holds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="seeds = 10000001: must be at most 10000000"):
        ss.train(ss.MergedAttention(2), TASK, method=ss.GradientFlow(until=10), seeds=10_000_001)
