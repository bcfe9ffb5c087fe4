"""`saddlescope reproduce` on Z Figs. 3 and 4, against a plain PyTorch loop of the same training."""

from __future__ import annotations

import tempfile

import torch

import saddlescope as ss
from benchmarks.figure3 import PROMPTS, STEPS, PlainLoop
from benchmarks.settings import SEEDS, initial_weights, power_law_task, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import Timing, clock, fresh_process
from saddlescope.figures import FIGURES

_COMMAND = """
import os
os.environ["XDG_CACHE_HOME"] = {folder!r}
from saddlescope.cli import main
main(["reproduce", *{figures!r}, "--no-film", "--out", {folder!r}])
"""
# These take longer by nature: sampled prompts, depth, and transformers.
_LONG = {"softmax", "depth", "mt3", "mt5", "emergence-ranks", "grokking-measures"}
# Target seconds per figure: 150 for the 25 that there were when it was set.
_A_FIGURE = 6.0


def measure(quick: bool) -> Findings:
    """The whole command in a fresh process with nothing compiled; the loop is extrapolated."""
    figures = {
        "fig3": (staircase_task(), [ss.SeparateAttention(heads=5, rank=1)]),
        "fig4": (
            power_law_task(8),
            [ss.SeparateAttention(heads=9, rank=rank) for rank in (1, 2, 4, 8)],
        ),
    }
    rows = []
    for name, (task, models) in figures.items():
        baseline = sum(_seconds_a_run(task, model, quick) for model in models) * SEEDS
        rows.append(
            Row(
                what=f"saddlescope reproduce {name}",
                ours=_seconds_of([name], 1 if quick else 3),
                baseline=baseline,
                against="PyTorch, full attention",
                ratio_above=1000,
                note=f"the baseline is {STEPS:,} steps of {SEEDS} seeds of "
                f"{len(models)} model{'s' * (len(models) > 1)}, "
                f"by its best steps ({torch.get_num_threads()} threads, float32, {PROMPTS} "
                "prompts); ours trains to the end, predicts, judges, draws and starts from nothing",
            )
        )
    if not quick:
        short = [kind.id for kind in FIGURES if kind.id not in _LONG]
        rows.append(
            Row(
                what=f"saddlescope reproduce, {len(short)} figures",
                ours=_seconds_of(short, 1),
                baseline=None,
                against="—",
                seconds_below=_A_FIGURE * len(short),
                note=f"all but {', '.join(sorted(_LONG))} and the video; {_A_FIGURE:g} s a figure",
            )
        )
    return Findings("The papers' figures, from the command to the page", rows=tuple(rows))


def _seconds_of(figures: list[str], times: int) -> float:
    """The best of several runs, each with nothing compiled."""
    seconds = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            timing, _ = fresh_process(_COMMAND.format(figures=figures, folder=folder), times=1)
        seconds.append(timing.best)
    return min(seconds)


def _seconds_a_run(task: ss.InContextRegression, model: ss.SeparateAttention, quick: bool) -> float:
    prompts = task.sample(PROMPTS)
    loop = PlainLoop(prompts, initial_weights(model, prompts, 1)[0])
    loop.step()
    return Timing(tuple(clock(loop.step) for _ in range(2 if quick else 10))).best * STEPS
