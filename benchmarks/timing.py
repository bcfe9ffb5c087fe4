"""Timing of calls after a warm-up, of fresh processes, and of one step.

A busy machine can only slow a call down, so the best of several calls is compared. Results of
`saddlescope` are NumPy arrays, so nothing is still being computed when a call returns.
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
    """Wall-clock seconds of repeated calls."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The shortest."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median."""
        return sorted(self.seconds)[len(self.seconds) // 2]


def clock(call: Call) -> float:
    """The seconds that one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def repeat(call: Call, times: int) -> Timing:
    """Time repeated calls after a warm-up call, which compiles and fills caches."""
    call()
    return Timing(tuple(clock(call) for _ in range(times)))


def alternate(ours: Call, baseline: Call, times: int) -> tuple[Timing, Timing]:
    """Time two calls alternately, so that other load on the machine affects both."""
    ours()
    baseline()
    pairs = [(clock(ours), clock(baseline)) for _ in range(times)]
    return Timing(tuple(pair[0] for pair in pairs)), Timing(tuple(pair[1] for pair in pairs))


def seconds_per_step(run: Callable[[int], Any], times: int, at_least: float = 0.1) -> float:
    """The cost of one step of `run(steps)`, without the fixed cost of a run.

    It is the slope between a run of one step and a long run. The long run grows until the best of
    several exceeds the best of the short ones by `at_least` seconds, and at least doubles it, so
    that a delay of a single call cannot pass for work.
    """

    def best(steps: int, times: int) -> float:
        return min(clock(lambda: run(steps)) for _ in range(times))

    run(1)
    single = best(1, times)
    steps = 8
    while True:
        needed = max(at_least, single)
        extra = best(1 + steps, 1) - single
        if extra >= needed:
            single = min(single, best(1, times))
            extra = best(1 + steps, times) - single
            if extra >= needed:
                return extra / steps
        steps = max(2 * steps, int(0.7 * steps * needed / max(extra, needed / 100)))


def fresh_process(code: str, times: int) -> tuple[Timing, str]:
    """Time a new Python process that runs `code`, and return what it printed.

    JAX's compilation cache of earlier processes is disabled.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        process = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        seconds.append(time.perf_counter() - began)
        if process.returncode != 0:
            raise RuntimeError(f"a fresh process failed:\n{process.stderr}")
    return Timing(tuple(seconds)), process.stdout
