"""A disk that takes no more: said once in one line, and the result is there all the same.

A limit on the size of a file stands for it: the system refuses in the middle of a file.
"""

import logging
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import saddlescope as ss
from saddlescope.errors import CannotWrite
from saddlescope.figures.kit.reproduction import reproduce
from saddlescope.figures.mainali.grokking_recorded import GrokkingRecorded
from saddlescope.running.files import files_in
from saddlescope.transformer import GrokkingExperiment, save_metrics

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
COMMAND = shlex.split(
    "train --spectrum .6,.3 --heads 3 --seeds 3 --init-scale .1 --points 50 --steps 3000"
    " --learning-rate .02"
)


@contextmanager
def full_beyond(size: int) -> Iterator[None]:
    """No file can grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def train(*observers: object) -> ss.Trajectory:
    return ss.train(
        ss.SeparateAttention(heads=3),
        TASK,
        method=ss.GradientDescent(0.2, 3000),
        init_scale=0.1,
        seeds=3,
        record=100,
        observers=observers,
    )


@pytest.mark.usefixtures("short_segments")
def test_a_checkpoint_that_cannot_be_written_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with full_beyond(1000), caplog.at_level(logging.WARNING, "saddlescope"):
        run = train(ss.Checkpoint(tmp_path / "checkpoint", every=0))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "cannot be written: File too large; the run goes on without its checkpoint" in message
    assert run.equals(train())
    assert [name for name in files_in(tmp_path / "checkpoint") if not name.startswith(".")] == []


@pytest.mark.parametrize("size", [0, 300, 3000])
def test_a_run_that_cannot_be_saved_leaves_the_one_before(size: int, tmp_path: Path) -> None:
    run = train()
    run.save(tmp_path / "run")
    for path, overwrite in ((tmp_path / "run", True), (tmp_path / "new", False)):
        with full_beyond(size), pytest.raises(CannotWrite, match="File too large") as refusal:
            run.save(path, overwrite=overwrite)
        assert "\n" not in str(refusal.value)
    assert ss.load(tmp_path / "run").equals(run)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_metrics_that_cannot_be_kept_are_returned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loss = (("seed", "step"), np.zeros((2, 500)))
    metrics = xr.Dataset({"loss": loss})
    with full_beyond(1000), pytest.raises(CannotWrite, match="File too large"):
        save_metrics(metrics, tmp_path / "metrics")
    with full_beyond(1000), caplog.at_level(logging.WARNING, "saddlescope"):
        GrokkingExperiment.quick().keep(metrics, tmp_path / "metrics")
    (message,) = [record.getMessage() for record in caplog.records]
    assert "File too large; the metrics are not kept" in message
    assert files_in(tmp_path) == []


def test_a_figure_that_cannot_be_written_is_judged(tmp_path: Path) -> None:
    with full_beyond(1000):
        (result,) = reproduce([GrokkingRecorded.quick()], tmp_path, films=False)
    assert "cannot be written: File too large" in result.problem
    assert "\n" not in result.problem
    assert len(result.claims) > 0
    assert result.sheet is not None
    assert files_in(tmp_path) == []


def test_a_command_says_it_once_and_shows_its_result(tmp_path: Path) -> None:
    # Enough for the lock and who holds it, too little for the run.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400));"
    program = f"{limit} from saddlescope.cli import main; main()"
    command = [sys.executable, "-c", program, *COMMAND, "--out", str(tmp_path / "out")]
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "predicted plateaus" in done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot be written: File too large" in done.stderr
