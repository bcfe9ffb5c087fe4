"""All blocks, softmax and streamed statistics."""

from __future__ import annotations

import numpy as np
import torch

import saddlescope as ss
from benchmarks.settings import INIT_SCALE, LOSS_ONLY, SEEDS, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import Timing, clock, repeat

_PROMPTS = 200
_RATE = 0.05
_HEADS = 8


class FullSoftmaxAttention(torch.nn.Module):
    """Merged softmax attention over whole prompts: every block, every token a query."""

    def __init__(self, weights: ss.attention.Weights, dimension: int) -> None:
        super().__init__()
        token = dimension + 1
        value = torch.zeros(_HEADS, token, token)
        value[:, -1, -1] = torch.tensor(weights["v"])
        merged = torch.zeros(_HEADS, token, token)
        merged[:, :-1, :-1] = torch.tensor(weights["U"])
        self.value, self.merged = torch.nn.Parameter(value), torch.nn.Parameter(merged)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens `[P, N+1, D+1]` after one layer."""
        spread = tokens[:, None]
        scores = spread @ self.merged.mT @ spread.mT
        attention = torch.softmax(scores, dim=-1)
        return tokens + (attention @ spread @ self.value.mT).sum(1)


def measure(quick: bool) -> Findings:
    """Softmax against PyTorch, the full-block step, and statistics against their sampler."""
    return Findings(
        "All blocks, softmax, streamed statistics (D = 4, N = 31)",
        rows=(_softmax(quick), _full_blocks(quick), _stream(quick)),
    )


def _softmax(quick: bool) -> Row:
    task = staircase_task()
    prompts = task.sample(_PROMPTS)
    model = ss.MergedAttention(
        heads=_HEADS, blocks="full", activation="softmax", normalisation="none"
    )
    # Enough that a step is what is measured, not the set-up of a run.
    steps = 1000 if quick else 4000
    weights = ss.RandomStart(1.0).weights(model, task, seed=0)
    method = ss.GradientDescent(learning_rate=_RATE, steps=steps)
    runs: list[ss.Trajectory] = []

    def run_ours() -> None:
        runs[:] = [ss.train(model, prompts, weights=weights, method=method, record=LOSS_ONLY)]

    compiled = repeat(run_ours, times=3)
    tokens = np.concatenate([prompts.x, prompts.y[:, :, None]], axis=-1)
    tokens[:, -1, -1] = 0.0
    data = torch.tensor(tokens, dtype=torch.float32)
    target = torch.tensor(prompts.target, dtype=torch.float32)
    plain = FullSoftmaxAttention(weights, task.dimension)
    optimiser = torch.optim.SGD(plain.parameters(), lr=_RATE)

    def step() -> float:
        optimiser.zero_grad()
        loss = ((plain(data)[:, -1, -1] - target) ** 2).mean()
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    first = step()
    if not np.isclose(first, runs[0].loss[0, 0], rtol=1e-4):
        raise RuntimeError(f"the loop starts at {first}, ours at {runs[0].loss[0, 0]}")
    loop = Timing(tuple(clock(step) for _ in range(10 if quick else 40)))
    return Row(
        what=f"softmax step, {_PROMPTS} prompts, H = {_HEADS}",
        ours=compiled.best / steps,
        baseline=loop.best,
        against="PyTorch, full attention",
        ratio_above=30,
        note="float64 against float32, and the query row alone against every row",
    )


def _full_blocks(quick: bool) -> Row:
    task = staircase_task()
    steps = 2000 if quick else 10_000
    method = ss.GradientDescent(learning_rate=0.02, steps=steps)
    times = []
    for blocks in ("full", "reduced"):
        model = ss.SeparateAttention(heads=5, rank=1, blocks=blocks)

        def run(model: ss.SeparateAttention = model) -> None:
            ss.train(
                model, task, method=method, init_scale=INIT_SCALE, seeds=SEEDS, record=LOSS_ONLY
            )

        times.append(repeat(run, times=3).best / (SEEDS * steps))
    full, reduced = times
    return Row(
        what="full-block step, H = 5, R = 1",
        ours=full,
        baseline=reduced,
        against="the reduced step",
        seconds_below=10e-6,
    )


def _stream(quick: bool) -> Row:
    task = staircase_task()
    count = 10**5 if quick else 10**7

    def draw() -> None:
        for _ in task.sample_batches(count):
            pass

    return Row(
        what=f"statistics of {count:.0e} prompts, streamed",
        ours=clock(lambda: task.statistics(count)),
        baseline=clock(draw),
        against="drawing them alone",
        ratio_above=0.5,
        note="bound by the sampler: half of the time or more is its own",
    )
