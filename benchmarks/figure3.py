"""The setting of Z Fig. 3 against a plain PyTorch loop with full attention, and its cold start."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import saddlescope as ss
from benchmarks.settings import (
    CONTEXT_LENGTH,
    EIGENVALUES,
    INIT_SCALE,
    SEEDS,
    initial_weights,
    staircase_task,
)
from benchmarks.table import Findings, Row
from benchmarks.timing import Timing, clock, fresh_process, repeat

PROMPTS = 5000
STEPS = 10_001
LEARNING_RATE = 0.02
MODEL = ss.SeparateAttention(heads=5, rank=1)
METHOD = ss.GradientDescent(learning_rate=LEARNING_RATE, steps=STEPS)

_COLD_RUN = f"""
import saddlescope as ss
task = ss.InContextRegression({list(EIGENVALUES)}, context_length={CONTEXT_LENGTH})
model = ss.SeparateAttention(heads=5, rank=1)
method = ss.GradientDescent(learning_rate={LEARNING_RATE}, steps={STEPS})
ss.train(model, task.sample({PROMPTS}), method=method, init_scale={INIT_SCALE}, seeds={SEEDS})
"""
_COLD_BASELINE = "import jax; jax.jit(lambda x: x + 1)(1.0).block_until_ready()"


class FullAttention(torch.nn.Module):
    """Linear attention over whole prompts: every block of every matrix, every token a query."""

    def __init__(self, weights: dict[str, Any], dimension: int) -> None:
        super().__init__()
        v, k, q = (torch.tensor(weights[name], dtype=torch.float32) for name in "vkq")
        heads, rank, _ = k.shape
        token = dimension + 1
        value = torch.zeros(heads, token, token)
        value[:, -1, -1] = v
        key, query = torch.zeros(heads, rank, token), torch.zeros(heads, rank, token)
        key[:, :, :-1], query[:, :, :-1] = k, q
        self.value = torch.nn.Parameter(value)
        self.key = torch.nn.Parameter(key)
        self.query = torch.nn.Parameter(query)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens `[P, N+1, D+1]` after one layer."""
        spread = tokens[:, None]
        keys = spread @ self.key.mT
        queries = spread @ self.query.mT
        values = spread @ self.value.mT
        attention = queries @ keys.mT / (tokens.shape[1] - 1)
        return tokens + (attention @ values).sum(1)


class PlainLoop:
    """Full-batch gradient descent, written the plain way."""

    def __init__(self, prompts: ss.Prompts, weights: dict[str, Any]) -> None:
        tokens = np.concatenate([prompts.x, prompts.y[:, :, None]], axis=-1)
        tokens[:, -1, -1] = 0.0
        self.tokens = torch.tensor(tokens, dtype=torch.float32)
        self.target = torch.tensor(prompts.target, dtype=torch.float32)
        self.model = FullAttention(weights, prompts.dimension)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)

    def step(self) -> float:
        """Take one step and return the loss before it."""
        self.optimiser.zero_grad()
        loss = ((self.model(self.tokens)[:, -1, -1] - self.target) ** 2).mean()
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())


def measure(quick: bool) -> Findings:
    """A compiled trajectory, and the whole run in a fresh process."""
    task = staircase_task()
    prompts = task.sample(PROMPTS)
    runs: list[ss.Trajectory] = []

    def run_ours() -> None:
        runs[:] = [ss.train(MODEL, prompts, method=METHOD, init_scale=INIT_SCALE, seeds=SEEDS)]

    compiled = repeat(run_ours, times=3 if quick else 7)

    loop = PlainLoop(prompts, initial_weights(MODEL, prompts, 1)[0])
    steps = 4 if quick else 30
    first = loop.step()
    if not np.isclose(first, runs[0].loss[0, 0], rtol=1e-4):
        raise RuntimeError(f"the loop starts at {first}, ours at {runs[0].loss[0, 0]}")
    plain = Timing(tuple(clock(loop.step) for _ in range(steps)))

    cold, _ = fresh_process(_COLD_RUN, times=1 if quick else 3)
    bare, _ = fresh_process(_COLD_BASELINE, times=1 if quick else 3)
    return Findings(
        "Z Fig. 3: 6 seeds, 10 001 steps of gradient descent, 5000 prompts",
        rows=(
            Row(
                what="one trajectory, compiled",
                ours=compiled.best / SEEDS,
                baseline=plain.best * STEPS,
                against="PyTorch, full attention",
                ratio_above=10_000,
                note=f"the baseline is {STEPS:,} times its best of {steps} steps "
                f"({plain.best * 1e3:.0f} ms each, {torch.get_num_threads()} threads, float32); "
                "ours takes in the prompts and records 1000 points with weights",
            ),
            Row(
                what="cold start: the whole run",
                ours=cold.best,
                baseline=bare.best,
                against="import jax, jit x + 1",
                seconds_below=8.0,
            ),
        ),
    )
