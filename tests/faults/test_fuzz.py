"""Settings drawn at random over every kind there is, with values from tiny to huge.

Each trains, or says in one line why not; no number that is not one is handed out without a word.
"""

import collections
import json
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.errors import Interrupted, SaddlescopeError
from saddlescope.setting import Setting
from saddlescope.setting.kinds import kinds_of
from saddlescope.trajectory import Result

# Two dimensions, two seeds and few shapes: what varies freely is what does not compile anew.
DIMENSION = 2

LINEAR = ("in_context_regression", "task_pool", "statistics", "prompts")
# Each model beside the tasks that it can be trained on by exact losses, and by fresh prompts.
MODELS: dict[str, tuple[Callable[[], Any], tuple[str, ...], tuple[str, ...]]] = {
    "merged": (lambda: ss.MergedAttention(2), LINEAR, LINEAR),
    "merged, all blocks": (lambda: ss.MergedAttention(2, blocks="full"), LINEAR, LINEAR),
    "merged, softmax": (
        lambda: ss.MergedAttention(2, activation="softmax"),
        ("prompts",),
        ("in_context_regression", "task_pool", "prompts"),
    ),
    "separate": (lambda: ss.SeparateAttention(2), LINEAR, LINEAR),
    "one head of rank two": (lambda: ss.SeparateAttention(1, 2), LINEAR, LINEAR),
    "unnormalised": (lambda: ss.SeparateAttention(2, 1, "none"), LINEAR, LINEAR),
    "separate, all blocks": (lambda: ss.SeparateAttention(2, blocks="full"), LINEAR, LINEAR),
    "separate, softmax": (
        lambda: ss.SeparateAttention(2, activation="softmax", normalisation="none"),
        ("prompts",),
        ("in_context_regression", "prompts"),
    ),
    "deep": (
        lambda: ss.DeepAttention(2, 1),
        ("prompts",),
        ("in_context_regression", "task_pool", "prompts"),
    ),
    "deep, softmax": (
        lambda: ss.DeepAttention(2, 1, 1, activation="softmax"),
        ("prompts",),
        ("in_context_regression", "prompts"),
    ),
    "two layers": (lambda: ss.attention.TwoLayerNetwork(2), LINEAR, LINEAR),
    "convolutional": (lambda: ss.attention.ConvolutionalNetwork(2), LINEAR, LINEAR),
    "linear transformer": (
        lambda: ss.LinearTransformer(),
        ("aligned_regression", "vector prompts"),
        ("aligned_regression", "vector prompts"),
    ),
    "linear transformer, all blocks": (
        lambda: ss.LinearTransformer(blocks="full"),
        ("vector prompts",),
        ("aligned_regression", "vector prompts"),
    ),
}
SUMMARISED = {"merged", "separate", "one head of rank two", "two layers", "convolutional"}
METHODS = ("flow", "descent", "stochastic_descent", "optimiser")


class Draw:
    """One setting after another: values from `random`, what compiles anew from `shapes`."""

    def __init__(self, random: np.random.Generator, alike: int) -> None:
        self.random = random
        self.alike = alike
        """How many settings in a row have all their shapes in common."""
        self.count = 0

    def next_setting(self) -> Setting:
        if self.count % self.alike == 0:
            self.seed = int(self.random.integers(2**32))
        self.count += 1
        self.shapes = np.random.default_rng(self.seed)
        return self._setting()

    def _setting(self) -> Setting:
        name, kind = self.of(list(MODELS)), self.of(METHODS)
        make, exact, fresh = MODELS[name]
        method, model = self.method(kind), make()
        fitting = fresh if method.is_stochastic else exact
        every = [*kinds_of("task"), "vector prompts"]
        chosen = self.of(every if self.shaped(0.05) else fitting)
        task = self.task(chosen, getattr(model, "blocks", "reduced"), method.is_stochastic)
        spacing = "log" if self.chance(0.3) else "linear"
        record = ss.Record(points=9, spacing=spacing, weights=not self.shaped(0.15))
        return Setting(model, task, method, self.start(model, name, task), record, seeds=(0, 7))

    def of(self, choices: Any) -> Any:
        return list(choices)[self.shapes.integers(len(choices))]

    def shaped(self, share: float) -> bool:
        return bool(self.shapes.random() < share)

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def size(self, low: float = -2.0, high: float = 0.5) -> float:
        """10 to a usual power mostly, to a far one at times, to any that float64 holds."""
        if self.chance(0.1):
            low, high = (-307.0, 308.0) if self.chance(0.3) else (-12.0, 8.0)
        return float(10 ** self.random.uniform(low, high))

    def covariance(self) -> Any:
        values = [self.size(-1.0, 0.3) for _ in range(DIMENSION)]
        if self.chance(0.05):
            values[0] = 0.0
        if not self.shaped(0.25):
            return values
        angle = self.random.uniform(0, np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = (turn * values) @ turn.T
        return (matrix + matrix.T) / 2

    def law(self, pool: bool, fresh: bool) -> Any:
        # What draws prompts is compiled for its longest context.
        length: Any = self.of((1, 3)) if fresh else int(self.random.choice((1, 5, 31, 10**12)))
        length = [1, 3] if self.shaped(0.15) else length
        if pool:
            tasks, labels = self.of(((1, "consistent"), (1, "random"), (3, "consistent")))
            return ss.TaskPool(self.covariance(), length, tasks, self.random.random(), labels)
        return ss.InContextRegression(
            self.covariance(),
            length,
            task_covariance=self.covariance() if self.shaped(0.3) else None,
            query_covariance=self.covariance() if self.shaped(0.3) else None,
            label_noise=self.size() if self.chance(0.3) else 0.0,
        )

    def task(self, kind: str, blocks: str, fresh: bool) -> Any:
        seed = int(self.random.integers(100))
        if kind in ("in_context_regression", "task_pool"):
            return self.law(kind == "task_pool", fresh)
        if kind == "aligned_regression":
            return ss.AlignedRegression(
                self.covariance(), 3, self.of(("aligned", "aligned", "independent"))
            )
        if kind == "vector prompts":
            return ss.AlignedRegression(self.covariance(), 3).sample(4, seed)
        law = ss.InContextRegression(self.covariance(), 3, label_noise=self.size())
        return law.sample(4, seed) if kind == "prompts" else law.statistics(40, seed, blocks)

    def method(self, kind: str) -> Any:
        # Enough for as many points as are asked for: a grid of fewer compiles anew.
        steps = 1 if self.shaped(0.05) else int(self.random.integers(60, 300))
        converged = self.random.uniform(1e-6, 0.9) if self.chance(0.1) else None
        if kind == "flow":
            rtol = self.size(-9.0, -3.0)
            return ss.GradientFlow(self.size(-1.0, 2.0), rtol=rtol, converged=converged)
        if kind == "descent":
            return ss.GradientDescent(self.size(-3.0, -0.7), steps, converged)
        if kind == "stochastic_descent":
            return ss.StochasticGradientDescent(self.size(-3.0, -1.0), steps, 4)
        name, rate = self.of((("adam", 1e-3), ("adam", 30.0), ("sgd", 0.02), ("lion", 1e-2)))
        return ss.Optimiser(name, steps, rate, 4 if self.shaped(0.4) else None)

    def start(self, model: Any, name: str, task: Any) -> Any:
        scale = self.size(-3.0, 0.0)
        exact = name in SUMMARISED and not task.is_given and not task.has_vector_labels
        kind = self.of(kinds_of("init")) if self.shaped(0.5 if exact else 0.05) else "random"
        if kind == "given":
            shapes = model.shapes(DIMENSION)
            arrays = {n: scale * self.random.standard_normal(s) for n, s in shapes.items()}
            return ss.GivenStart(arrays)
        return {
            "random": lambda: ss.RandomStart(scale),
            "balanced": lambda: ss.BalancedStart(scale, self.of(("random", "random", "aligned"))),
            "fixed_point": lambda: ss.FixedPointStart((0,), scale if self.chance(0.7) else 0.0),
            "eigenvector": lambda: ss.EigenvectorStart(int(self.chance(0.5)), scale),
        }[kind]()


class Impatient(ss.AbstractObserver):
    """Ends what gets nowhere after a few segments."""

    def __init__(self) -> None:
        self.borders = 0

    def observe(self, snapshot: ss.Snapshot) -> None:
        self.borders += 1
        if self.borders == 3:
            snapshot.stop()


def run_drawn(draw: Draw) -> ss.Trajectory | str:
    """The run of a drawn setting, or why there is none."""
    try:
        # optax mixes weak and strong types.
        with jax.numpy_dtype_promotion("standard"):
            return ss.train(draw.next_setting(), observers=[Impatient()])
    except Interrupted as stopped:
        return stopped.snapshot.result
    except SaddlescopeError as reason:
        return str(reason)


def check(run: ss.Trajectory) -> None:
    """Sound numbers wherever a seed is not said to have diverged, and a comparison of them."""
    for index, outcome in enumerate(run.outcomes):
        if outcome.result is Result.DIVERGED:
            assert "try" in outcome.message
            assert "\n" not in outcome.message
            continue
        assert np.isfinite(run.loss[index]).all()
        assert all(np.isfinite(array[index]).all() for array in run.weights().values())
    json.dumps(run.compare().to_dict(), allow_nan=False)


# Under soak the settings are split, so that tests that run beside each other share them.
SHARES = 8 if os.environ.get("SADDLESCOPE_SOAK") else 1


@pytest.mark.parametrize("share", range(SHARES))
def test_every_setting_trains_or_says_why(share: int, soak: Any, record_property: Any) -> None:
    count = soak.count(8, 5000 // SHARES)
    draw = Draw(soak.random.spawn(SHARES)[share], alike=soak.count(1, 25))
    ended: collections.Counter[str] = collections.Counter()
    for number in range(count):
        before = draw.random.bit_generator.state
        try:
            run = run_drawn(draw)
            if isinstance(run, str):
                assert run
                assert "\n" not in run
                ended["refused"] += 1
                continue
            check(run)
        except Exception as problem:
            problem.add_note(f"setting {number}, drawn from {before}")
            raise
        trains = any(outcome.result is not Result.DIVERGED for outcome in run.outcomes)
        ended["trained" if trains else "diverged"] += 1
    record_property("ended", dict(ended))
    print(dict(ended))
    assert ended["trained"] >= count / 2
