"""Runs for the page: in two padded shapes that are compiled once, shown while they grow."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics import (
    AbstractMethod,
    GradientDescent,
    GradientFlow,
    Optimiser,
    Record,
    train_many,
)
from saddlescope.errors import Interrupted
from saddlescope.lab._bounds import LARGE, MOST_SEEDS, OPTIMISERS, POINTS, SMALL, padded_shape
from saddlescope.lab._turns import GiveWay, Turns
from saddlescope.running import AbstractObserver, Snapshot, StopButton, StopWhen
from saddlescope.running.observers import Result, State
from saddlescope.running.programs import hold
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, TaskPool
from saddlescope.trajectory import Result as Outcome
from saddlescope.trajectory import Trajectory

LONGEST = 60.0
"""Seconds after which a run is stopped, and shown as far as it came."""

# Twice the programs that the controls can reach.
_PROGRAMS = 350
# Seconds between two partial results; a run that ends sooner, as most do, is drawn once.
_BETWEEN = 0.4

Show: TypeAlias = Callable[[Trajectory, float], None]
"""Takes a run, or as much of it as there is, and the share that is done."""


class Simulator:
    """Runs settings, with one compiled program for all of a kind."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._ready: set[object] = set()
        self._locks: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)
        self._is_closed = False

    def is_ready(self, setting: Setting) -> bool:
        """Whether nothing would be compiled for a setting."""
        return _program(setting) in self._ready

    def prepare(self, setting: Setting) -> None:
        """Compile what a setting needs, once for all who ask for it."""
        key = _program(setting)
        with self._locks[key]:
            if key in self._ready:
                return
            shape = padded_shape(setting)
            shortest: list[dict[str, object]] = [{"steps": 1}]
            if isinstance(setting.method, GradientFlow):
                # A long flow turns to the method for stiff equations.
                shortest = [{"until": 1}, {"until": 1, "solver": "stiff"}]
            for fields in shortest:
                with self._turns:
                    train_many([setting.replace(**fields)], padded_to=shape)
            self._ready.add(key)

    def run(self, setting: Setting, show: Show, button: StopButton) -> None:
        """Run a setting and show it at its end, and before if it takes long.

        Nothing is shown once the button is pressed.
        """
        self.prepare(setting)
        observers = [_Stream(show), button, GiveWay(self._turns), StopWhen(_is_long)]
        with self._turns:
            if button.is_pressed:
                return
            try:
                (run,) = train_many([setting], padded_to=padded_shape(setting), observers=observers)
            except Interrupted as stopped:
                run = _only(stopped.snapshot)
        if not button.is_pressed:
            show(run, 1.0)

    def warm_up(self) -> None:
        """Compile all that the controls can reach, and keep it."""
        hold(_PROGRAMS)
        for setting in _one_of_each():
            # A process that ends waits for the program being compiled, and for no other.
            if self._is_closed or not threading.main_thread().is_alive():
                return
            self.prepare(setting)

    def close(self) -> None:
        """Compile no more."""
        self._is_closed = True


class _Stream(AbstractObserver):
    """Shows a run that takes long as far as it is."""

    interval = _BETWEEN

    def __init__(self, show: Show) -> None:
        self._show = show
        self._latest = time.monotonic()

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        now = time.monotonic()
        if now - self._latest < _BETWEEN or snapshot.is_finished:
            return
        self._latest = now
        self._show(_only(snapshot), snapshot.share)


def _only(snapshot: Snapshot) -> Trajectory:
    """The run of a job of one setting."""
    (run,) = snapshot.result
    assert isinstance(run, Trajectory)
    return run


def _is_long(snapshot: Snapshot) -> bool:
    return snapshot.seconds > LONGEST


def _program(setting: Setting) -> object:
    """What distinguishes the programs that settings need."""
    optimiser = getattr(setting.method, "optimiser", None)
    blocks = getattr(setting.model, "blocks", None)
    kinds = tuple(type(part).__name__ for part in (setting.model, setting.task, setting.method))
    shape = padded_shape(setting)
    return shape, shape.rows(len(setting.seeds)), *kinds, blocks, optimiser


def _one_of_each() -> Iterator[Setting]:
    """A setting for every program that the controls can reach, the most likely first."""
    methods: list[AbstractMethod] = [GradientDescent(0.5, 100), GradientFlow(100.0)]
    methods += [Optimiser(name, 100, learning_rate=0.01) for name in OPTIMISERS]
    fixed = TaskPool([0.25] * SMALL.dimension, 31, tasks=1, share=0.5)
    record = Record(POINTS)
    for method in methods:
        for shape, seeds in ((SMALL, 1), (LARGE, 1), (LARGE, MOST_SEEDS)):
            task = InContextRegression([0.2] * shape.dimension, 31)
            separate, merged = (
                SeparateAttention(shape.heads, shape.rank),
                MergedAttention(shape.heads),
            )
            yield Setting(separate, task, method, record=record, seeds=seeds)
            yield Setting(merged, task, method, record=record, seeds=seeds)
        full = (
            SeparateAttention(SMALL.heads, blocks="full"),
            MergedAttention(SMALL.heads, blocks="full"),
        )
        for model in full:
            yield Setting(model, fixed, method, record=record)


def described(
    run: Trajectory, share: float, shown: int | None = None
) -> tuple[dict[str, object], dict[str, AnyArray]]:
    """What the page draws of a run: values and arrays, with weights in single precision.

    Of all seeds, or, losses apart, of the one that is `shown` alone (by its index; the last one if
    there are fewer).
    """
    dataset, seeds = run.dataset, slice(None)
    if shown is not None:
        shown = min(shown, len(run.outcomes) - 1)
        seeds = slice(shown, shown + 1)
    values: dict[str, object] = {
        "share": share,
        "shown": shown,
        "seeds": list(run.setting.seeds),
        "counts_steps": run.setting.method.counts_steps,
        "ended": [outcome.result.value for outcome in run.outcomes],
        "messages": [outcome.message for outcome in run.outcomes],
        "is_cut": share == 1.0 and bool(run.outcomes.are(Outcome.INTERRUPTED).any()),
    }
    arrays = {name: dataset[name].to_numpy() for name in ("loss", "time")}
    if run.setting.method.counts_steps:
        arrays["step"] = dataset["step"].to_numpy()
    # A run that diverges overflows a little sooner in single precision.
    with np.errstate(over="ignore"):
        for name, variable in dataset.data_vars.items():
            if name != "loss":
                kept = np.float64 if str(name).startswith("loss_") else np.float32
                arrays[str(name)] = variable.to_numpy()[seeds].astype(kept)
    return values, arrays
