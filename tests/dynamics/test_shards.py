"""An ensemble on one core and on several: the same bits, and states that move between them."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import _prepared, _shards
from saddlescope.dynamics._job import Job
from saddlescope.dynamics._shards import Shards

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
METHODS = {
    "descent": ss.GradientDescent(0.2, 300),
    "fresh prompts": ss.StochasticGradientDescent(0.05, 60, batch_size=4),
    "flow": ss.GradientFlow(300.0),
}


@pytest.fixture
def on_cores(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend to have so many cores; groups of two seeds."""
    monkeypatch.setattr(_prepared, "group_size", lambda *_: 2)

    def pretend(cores: int) -> None:
        monkeypatch.setattr(_shards, "_devices", lambda: [None] * cores)

    return pretend


def setting(method: str) -> ss.Setting:
    parts: Any = {"init": ss.RandomStart(0.1), "record": ss.Record(points=9), "seeds": 7}
    return ss.Setting(ss.SeparateAttention(3), TASK, METHODS[method], **parts)


@pytest.mark.parametrize("cores", [1, 2, 3, 9])
def test_shards_of_one_shape_make_up_the_whole(on_cores: Any, cores: int) -> None:
    on_cores(cores)
    shards, seeds = Shards(7, 2), np.arange(7)
    parts = shards.split({"a": seeds, "b": np.outer(seeds, [1.0, 2.0])})
    assert len(parts) == shards.count == min(cores, 4)
    assert len({part["a"].shape for part in parts}) == 1
    assert all(len(part["a"]) % 2 == 0 for part in parts)
    # The groups are the same however many shards there are; what is lacking repeats the first.
    together = np.concatenate([part["a"] for part in parts])
    assert together.tolist()[:8] == [0, 1, 2, 3, 4, 5, 6, 0]
    joined = shards.join(parts)
    np.testing.assert_array_equal(joined["a"], seeds)
    np.testing.assert_array_equal(joined["b"][:, 1], 2.0 * seeds)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_cores_changes_no_bit(on_cores: Any, method: str) -> None:
    runs = []
    for cores in (1, 2, 3):
        on_cores(cores)
        runs.append(ss.train(setting(method)))
    assert runs[0].equals(runs[1])
    assert runs[0].equals(runs[2])


def test_the_number_of_cores_changes_no_bit_of_the_first_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of groups of a size that rounds otherwise when several are computed together."""
    task = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
    begun = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(_shards, "_devices", lambda cores=cores: [None] * cores)
        job = Job(setting("flow").replace(model=ss.SeparateAttention(5), task=task, seeds=137))
        begun.append(job.save(job.begin()).state)
    for others in begun[1:]:
        for one, other in zip(begun[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_run_goes_on_where_there_are_other_cores(on_cores: Any) -> None:
    on_cores(3)
    whole = ss.train(setting("flow"))
    job = Job(setting("flow"))
    saved = job.save(job.advance(job.begin(), 20)[0])
    on_cores(2)
    other = Job(setting("flow"))
    state = other.restore(saved)
    while not other.is_finished(state):
        state, _ = other.advance(state, 10**6)
    assert other.result(state).equals(whole)


def test_every_shard_has_a_thread(on_cores: Any) -> None:
    on_cores(2)
    job, together = Job(setting("descent")), threading.Barrier(2)

    def wait(problem: object, first: int, second: int) -> int:
        """Each waits for the other."""
        together.wait(timeout=60)
        return first + second

    assert job.rows._shards.map(wait, job.rows._problems, [3, 4], [10, 20]) == (13, 24)


_ON_TWO_DEVICES = """
import json, sys
import jax
import saddlescope as ss
from saddlescope.dynamics import _prepared, _shards
from saddlescope.dynamics._job import Job

_prepared.group_size = lambda *_: 2
on_both, on_one = _shards._devices, lambda: [None]
for plain in json.loads(sys.argv[1]):
    setting, runs = ss.Setting.from_dict(plain), []
    for _shards._devices, count in ((on_both, 2), (on_one, 1)):
        leaves = jax.tree.leaves(Job(setting).begin())
        assert len({leaf.device for leaf in leaves}) == count
        runs.append(ss.train(setting))
    assert runs[0].equals(runs[1])
print('the same')
"""
# Bits depend on it: without optimisation, rounding differs with the groups in a shard.
_AS_FOR_USERS = "--xla_cpu_use_fusion_emitters=true"


def test_the_number_of_devices_changes_no_bit() -> None:
    """One group on each device, and both on one."""
    settings = [setting(name).replace(seeds=3) for name in ("descent", "flow")]
    given = json.dumps([one.to_dict() for one in settings])
    flags = os.environ.get("XLA_FLAGS", "")
    flags = f"{flags} {_AS_FOR_USERS} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", _ON_TWO_DEVICES, given],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("the same\n", 0), done.stderr
