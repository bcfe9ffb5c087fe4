"""A process that lives long: memory does not grow with runs, and threads do not disturb them."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.running import programs


def run(number: int, heads: int, method: str = "descent") -> ss.Trajectory:
    """A short run with values of its own."""
    random = np.random.default_rng(number)
    task = ss.InContextRegression(random.uniform(0.1, 1.0, 2), int(random.integers(1, 99)))
    chosen: Any = {
        "descent": lambda: ss.GradientDescent(random.uniform(0.001, 0.05), 60),
        "flow": lambda: ss.GradientFlow(random.uniform(1.0, 5.0)),
    }[method]()
    return ss.train(ss.SeparateAttention(heads), task, method=chosen, record=5, seeds=(number,))


def program_count() -> int:
    """How many compiled programs JAX holds in this process."""
    gc.collect()
    functions = [one for one in gc.get_objects() if type(one).__name__ == "PjitFunction"]
    assert functions
    return sum(one._cache_size() for one in functions)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("method", ["descent", "flow"])
def test_runs_of_one_shape_leave_nothing_behind(method: str, soak: Any) -> None:
    for number in range(3):
        run(number, 2, method).compare()
    held, arrays, resident = program_count(), len(jax.live_arrays()), resident_bytes()
    for number in range(3, soak.count(8, 500)):
        run(number, 2, method).compare()
    assert program_count() <= held
    assert len(jax.live_arrays()) <= arrays
    if soak.full:
        assert resident_bytes() - resident < 50e6


def test_programs_of_many_shapes_are_let_go(soak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    most = soak.count(3, 30)
    monkeypatch.setattr(programs, "_most", most)
    monkeypatch.setattr(programs, "_count", 0)
    first, held, resident = run(0, 3), [], []
    for heads in range(3, 3 + soak.count(5, 500)):
        run(0, heads)
        held.append(program_count())
        resident.append(resident_bytes())
    assert run(0, 3).equals(first)
    # A run makes one program or more: by then they were let go once.
    assert max(held) == max(held[:most])
    if soak.full:
        assert resident[-1] - max(resident[: 2 * most]) < 300e6


def test_runs_in_eight_threads_are_those_of_one(soak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if soak.full:
        # Each thread lets go of the programs of the others while they run.
        monkeypatch.setattr(programs, "_most", 1)
    kinds = [(number, 2 + number % soak.count(1, 2)) for number in range(soak.count(8, 80))]
    alone = [run(*kind) for kind in kinds]
    together = threading.Barrier(8)

    def in_thread(kind: tuple[int, int]) -> ss.Trajectory:
        together.wait(timeout=60)
        return run(*kind)

    with ThreadPoolExecutor(8) as pool:
        for one, expected in zip(pool.map(in_thread, kinds), alone, strict=True):
            assert one.equals(expected)
