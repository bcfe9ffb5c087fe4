"""The core runs on a bare machine."""

import subprocess
import sys

import pytest

BLOCK = """
import sys

BLOCKED = {'dask', 'distributed', 'fastapi', 'pydantic', 'torch', 'zarr', 'typer', 'click'}

class Without:
    '''A finder of modules that does not find the blocked ones.'''

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] not in BLOCKED:
            return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""

USE = """
import saddlescope as ss
for name in ss.__all__:
    getattr(ss, name)
task = ss.InContextRegression([.6, .3], context_length=31)
run = ss.train(ss.SeparateAttention(2), task, method=ss.GradientDescent(.2, 20), record=5)
run.compare(), run.plot(), repr(run), run.stages()
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.kernel import run_batch
sweep = ss.Sweep(run.setting, init_scale=[.1, .2], keep=['final_loss'])
assert run_batch(Batches(sweep.plan)[0]).status.tolist() == [1, 1]
assert not BLOCKED & set(sys.modules)
try:
    run.save('run')
except ModuleNotFoundError as missing:
    assert missing.name == 'zarr', missing
else:
    raise AssertionError('zarr was not blocked')
"""


def python(code: str, folder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def test_the_core_trains_compares_and_draws_without_extras(tmp_path) -> None:
    done = python(BLOCK + USE, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["task", "attention", "measure", "theory", "setting", "transformer"]
)
def test_each_part_imports_by_itself(name: str, tmp_path) -> None:
    # No part relies on another having been imported first.
    done = python(f"{BLOCK}\nimport saddlescope.{name}", tmp_path)
    assert done.returncode == 0, done.stderr


def test_arrays_and_laws_need_no_dynamics(tmp_path) -> None:
    code = (
        "import sys, saddlescope.task, saddlescope.measure, saddlescope.transformer\n"
        "assert 'safetensors' not in sys.modules\n"
        "assert 'diffrax' not in sys.modules\n"
        "assert 'saddlescope.dynamics' not in sys.modules\n"
        "assert 'saddlescope.theory' not in sys.modules\n"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
