"""Clocks: calls after a warm-up, fresh processes, and the cost of one step.

A busy machine only ever makes a call slower, so the best of several calls is what is compared.
Results of `saddlescope` are NumPy arrays: nothing is still being computed when a call returns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of repeated calls of one thing."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The shortest."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The one in the middle."""
        return sorted(self.seconds)[len(self.seconds) // 2]


def clock(call: Call) -> float:
    """The seconds that one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def repeat(call: Call, times: int) -> Timing:
    """Time a call after one that is not counted (it compiles, and fills the caches)."""
    call()
    return Timing(tuple(clock(call) for _ in range(times)))


def alternate(ours: Call, baseline: Call, times: int) -> tuple[Timing, Timing]:
    """Time two calls turn by turn, so that whatever else the machine does meets both."""
    ours()
    baseline()
    pairs = [(clock(ours), clock(baseline)) for _ in range(times)]
    return Timing(tuple(pair[0] for pair in pairs)), Timing(tuple(pair[1] for pair in pairs))


def seconds_per_step(run: Callable[[int], Any], times: int, at_least: float = 0.1) -> float:
    """What one step of `run(steps)` costs, without what every run costs.

    It is the slope between a run of one step and a long one. The long run is made longer until the
    best of several exceeds the best of the short ones by `at_least` seconds, and by as much again
    as a short one takes: one call that the machine held up cannot pass for work.
    """

    def best(steps: int, times: int) -> float:
        return min(clock(lambda: run(steps)) for _ in range(times))

    run(1)
    one = best(1, times)
    steps = 8
    while True:
        needed = max(at_least, one)
        spent = best(1 + steps, 1) - one
        if spent >= needed:
            one = min(one, best(1, times))
            spent = best(1 + steps, times) - one
            if spent >= needed:
                return spent / steps
        steps = max(2 * steps, int(0.7 * steps * needed / max(spent, needed / 100)))


def fresh_process(code: str, times: int) -> tuple[Timing, str]:
    """Time a new Python process that runs `code`, from its start to its end, and what it printed.

    Nothing compiled in an earlier process may help it.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        seconds.append(time.perf_counter() - began)
        if done.returncode != 0:
            raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return Timing(tuple(seconds)), done.stdout
