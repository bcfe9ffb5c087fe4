"""A training of a decoder that is killed: the same call goes on, to the same curve."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from saddlescope.running.progress import Progress
from saddlescope.transformer import InductionExperiment

TINY = InductionExperiment.quick(
    layers=(2,), steps=12, record=4, vocabulary=8, context=16, d_model=8, batch_size=4
)

# Trains with short segments and a checkpoint at each border, and kills itself at a chosen place.
DRIVER = """
import os, signal, sys
from saddlescope.transformer import InductionExperiment, _checkpoint, _training

_training._FIRST_SEGMENT = 2
_training._next_budget = lambda budget, taken, seconds: 2
_training._CHECKPOINT_SECONDS = -1.0
place, folder = sys.argv[1:]
calls = 0

def kill_at(last, function):
    def wrapped(*arguments, **options):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return wrapped

if place == 'between segments':
    _training.advance = kill_at(5, _training.advance)
elif place == 'while a checkpoint is written':
    _checkpoint.os.fsync = kill_at(9, _checkpoint.os.fsync)
elif place == 'between a record and the state':
    _checkpoint.write_arrays = kill_at(8, _checkpoint.write_arrays)
InductionExperiment.quick(
    layers=(2,), steps=12, record=4, vocabulary=8, context=16, d_model=8, batch_size=4
).run(folder)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    return TINY.run(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The processes of this file share what they compile."""
    cache = tmp_path_factory.mktemp("compiled")
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}


@pytest.mark.parametrize(
    "place",
    ["between segments", "while a checkpoint is written", "between a record and the state"],
)
def test_a_killed_training_goes_on_to_the_same_curve(
    place: str, tmp_path: Path, whole: xr.Dataset, environment: dict[str, str]
) -> None:
    command = [sys.executable, "-c", DRIVER, place, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (tmp_path / "layers_2" / "state.safetensors").exists()
    assert not (tmp_path / "metrics.nc").exists()
    told: list[Progress] = []
    rest = TINY.run(tmp_path, told.append)
    assert told[0].share > 2 / 12, "it began anew"
    xr.testing.assert_identical(rest, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.nc"]
