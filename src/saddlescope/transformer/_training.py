"""`fit`: a decoder trained by AdamW and measured at recorded steps."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Int, Shaped

from saddlescope.checks import AnyArray, list_seeds, seed_labels, whole_number
from saddlescope.errors import CannotRead, Interrupted, InvalidInput
from saddlescope.running.interruption import StopRequest
from saddlescope.running.progress import Progress, Report
from saddlescope.setting.kinds import kind
from saddlescope.setting.plain import describe, digest
from saddlescope.transformer._checkpoint import Folder
from saddlescope.transformer._course import AXES, kept_names, measure_course
from saddlescope.transformer._decoder import Arrays, Decoder, DecoderShape
from saddlescope.transformer._evaluation import (
    AbstractEvaluation,
    ArithmeticEvaluation,
    LanguageEvaluation,
)
from saddlescope.transformer._optimiser import AdamW
from saddlescope.transformer._stepping import Problem, State, advance, batch_keys, begin, evaluate
from saddlescope.transformer.sources import AbstractSource, ModularArithmetic

# A segment is sized to last about this long, so that progress, Ctrl-C and checkpoints are prompt.
_SEGMENT_SECONDS = 0.5
_FIRST_SEGMENT = 4
_CHECKPOINT_SECONDS = 5.0
# Sequences on which the loss is recorded, the same ones for every seed.
_HELD_OUT = 256
_HELD_OUT_KEY = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished training: its metrics, and the weights with which it ended."""

    dataset: xr.Dataset
    shape: DecoderShape
    weights: Arrays
    """By name, [seed, …]."""

    def decoder(self, seed: int | None = None) -> Decoder:
        """The decoder of one of the seeds, the first by default."""
        labels = tuple(self.dataset["seed"].to_numpy().tolist())
        if seed is not None and seed not in labels:
            raise InvalidInput("seed", seed, f"the training has seeds {list_seeds(labels)}")
        index = 0 if seed is None else labels.index(seed)
        return Decoder.of(self.shape, {name: array[index] for name, array in self.weights.items()})


def fit(
    shape: object,
    source: object,
    *,
    steps: object,
    batch_size: object = 32,
    learning_rate: object = 3e-3,
    weight_decay: object = 0.0,
    betas: object = (0.9, 0.99),
    warmup: object = 50,
    seeds: object = 1,
    record: object = 101,
    evaluation: AbstractEvaluation | None = None,
    together: bool | None = None,
    progress: Report | None = None,
    checkpoint: str | Path | None = None,
) -> Fit:
    """Train a decoder on a source by AdamW and measure it at recorded steps.

    - `seeds`: how many, or which. A seed fixes its initial weights and its batches.
    - `record`: how many recorded steps, evenly spaced from 0 to the last, or which ones.
    - `evaluation`: what is asked at a recorded step; by default losses, in-context score and prefix
      matching, and for modular arithmetic losses and accuracies.
    - `together`: train all seeds in one batch (the default on a GPU) or one after another within a
      segment (on a CPU); a seed's results differ by what rounding grows to.
    - `progress`: called with a `Progress` at every segment border.
    - `checkpoint`: a folder in which an unfinished training survives; the same call goes on from
      it, to the same bits.

    The dataset is over (seed, step, layer, head, position, weight) as told in
    `saddlescope.transformer`; distances are to the weights at the last step, and a seed that
    diverged is marked in `diverged` and has NaN from there on. Ctrl-C raises `Interrupted`, whose
    `trajectory` is the dataset of what had been evaluated.

    >>> from saddlescope.transformer import RepeatedTokens
    >>> source = RepeatedTokens(8, context=16, shortest=2, longest=8)
    >>> shape = DecoderShape(8, 16, layers=1, heads=2, d_model=8)
    >>> fit(shape, source, steps=4, record=3).dataset["loss"].dims
    ('seed', 'step')
    """
    made, drawn = _checked(shape, source)
    optimiser = AdamW(learning_rate, weight_decay, betas, warmup)
    size, chosen = whole_number("batch_size", batch_size), seed_labels(seeds)
    grid = recorded_steps(whole_number("steps", steps), record)
    problem = Problem(
        source=drawn,
        evaluation=_evaluation(drawn) if evaluation is None else evaluation,
        shape=made,
        optimiser=optimiser.traced(),
        batch_size=size,
        together=jax.default_backend() != "cpu" if together is None else bool(together),
    )
    training = _Training(problem, optimiser, chosen, grid)
    with StopRequest() as stop:
        return training.run(stop, progress, checkpoint)


def recorded_steps(steps: int, record: object) -> Int[np.ndarray, " record"]:
    """The steps at which to measure: a number of them, evenly spaced, or given ones.

    >>> recorded_steps(10, 3).tolist()
    [0, 5, 10]
    """
    times = np.asarray(record)
    if times.ndim == 0:
        points = whole_number("record", record, at_least=2)
        return np.unique(np.linspace(0, steps, points).round().astype(np.int64))
    given = np.unique([whole_number("record", at, at_least=0) for at in times.ravel().tolist()])
    if not len(given) or given[-1] != steps:
        raise InvalidInput("record", record, f"must end with the last step, {steps}")
    return given.astype(np.int64)


def _checked(shape: object, source: object) -> tuple[DecoderShape, AbstractSource]:
    if not isinstance(shape, DecoderShape):
        raise InvalidInput("shape", shape, "must be a DecoderShape")
    if not isinstance(source, AbstractSource):
        raise InvalidInput("source", source, "must be a source of saddlescope.transformer")
    for name in ("vocabulary", "context", "outputs"):
        least, have = getattr(source, name), getattr(shape, name)
        if have < least:
            raise InvalidInput(name, have, f"must be at least the source's {least}")
    return shape, source


def _evaluation(source: AbstractSource) -> AbstractEvaluation:
    if isinstance(source, ModularArithmetic):
        return ArithmeticEvaluation.of(source)
    return LanguageEvaluation.of(source, jax.random.key(_HELD_OUT_KEY), _HELD_OUT)


@kind("value", "decoder_training")
@dataclass(frozen=True)
class TrainingSetting:
    """All that a training depends on; the last recorded step is the last of all."""

    shape: DecoderShape
    source: AbstractSource
    optimiser: AdamW
    batch_size: int
    seeds: tuple[int, ...]
    record: tuple[int, ...]
    evaluation: str


@dataclass
class _Recorded:
    """What has been recorded so far, one entry for each recorded step."""

    weights: list[Arrays] = field(default_factory=list)
    """Those from which circuits are made, [seed, …]."""
    answers: list[Arrays] = field(default_factory=list)
    """Of the evaluation, [seed, …]."""

    def stacked(self) -> Arrays:
        """The answers, [step, seed, …]."""
        names = self.answers[0] if self.answers else ()
        return {name: np.stack([answer[name] for answer in self.answers]) for name in names}


@dataclass(frozen=True, eq=False)
class _Training:
    """A training made ready to be carried out, a segment at a time."""

    problem: Problem
    optimiser: AdamW
    seeds: tuple[int, ...]
    grid: Int[np.ndarray, " record"]

    @property
    def setting(self) -> TrainingSetting:
        """All that the training depends on."""
        problem = self.problem
        return TrainingSetting(
            problem.shape,
            problem.source,
            self.optimiser,
            problem.batch_size,
            self.seeds,
            tuple(self.grid.tolist()),
            type(problem.evaluation).__name__,
        )

    @property
    def digest(self) -> str:
        """Names the training; seeds together or one after another can go on from one another."""
        return digest(describe(self.setting))

    def run(self, stop: StopRequest, report: Report | None, checkpoint: str | Path | None) -> Fit:
        """Begin or go on, to the end."""
        state, recorded = begin(self.problem, self.seeds), _Recorded()
        folder = None if checkpoint is None else Folder(checkpoint, self.digest)
        saved = None if folder is None else folder.read()
        if saved is not None:
            state, recorded = self._restore(state, *saved)
        state = self._advance(state, recorded, stop, report, folder)
        measured = measure_course(self.problem.shape, recorded.weights)
        weights = {name: np.asarray(array) for name, array in state.weights.items()}
        return Fit(self._dataset(recorded, measured), self.problem.shape, weights)

    def _advance(
        self,
        state: State,
        recorded: _Recorded,
        stop: StopRequest,
        report: Report | None,
        folder: Folder | None,
    ) -> State:
        keys, done, budget = batch_keys(self.seeds), int(state.step), _FIRST_SEGMENT
        began = saved = time.monotonic()
        try:
            while len(recorded.answers) < len(self.grid):
                stop.check()
                target, before = int(self.grid[len(recorded.answers)]), time.monotonic()
                count = min(target - done, budget)
                if count:
                    state = jax.block_until_ready(advance(self.problem, keys, state, count))
                    done += count
                    budget = _next_budget(budget, count, time.monotonic() - before)
                if done == target:
                    self._record(state, recorded)
                now = time.monotonic()
                if report is not None:
                    report(Progress(done / int(self.grid[-1]), now - began))
                if folder is not None and now - saved > _CHECKPOINT_SECONDS:
                    folder.write(_leaves(state, recorded), recorded.weights)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            if folder is not None:
                folder.write(_leaves(state, recorded), recorded.weights)
            raise Interrupted(self._dataset(recorded, {})) from None
        return state

    def _record(self, state: State, recorded: _Recorded) -> None:
        computed, norms = jax.tree.map(np.asarray, evaluate(self.problem, state))
        finish, seeds = self.problem.evaluation.finish, range(len(self.seeds))
        answers = [
            finish({name: array[seed] for name, array in computed.items()}) for seed in seeds
        ]
        by_name = {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}
        recorded.answers.append({**by_name, "norm": norms})
        names = kept_names(self.problem.shape)
        recorded.weights.append({name: np.asarray(state.weights[name]) for name in names})

    def _restore(
        self, fresh: State, arrays: Arrays, weights: list[Arrays]
    ) -> tuple[State, _Recorded]:
        """The saved state, in the places of a fresh one, and what had been recorded."""
        leaves, structure = jax.tree.flatten(fresh)
        try:
            saved = [jnp.asarray(arrays[f"state.{place}"]) for place in range(len(leaves))]
            if [leaf.shape for leaf in saved] != [leaf.shape for leaf in leaves]:
                raise CannotRead("checkpoint: its arrays are of another shape; remove it")
        except KeyError:
            raise CannotRead("checkpoint: some of its arrays are missing; remove it") from None
        stacked = {
            name.removeprefix("answer."): array
            for name, array in arrays.items()
            if name.startswith("answer.")
        }
        answers = [
            {name: array[place] for name, array in stacked.items()} for place in range(len(weights))
        ]
        return jax.tree.unflatten(structure, saved), _Recorded(weights, answers)

    def _dataset(self, recorded: _Recorded, measured: Arrays) -> xr.Dataset:
        """Labelled, in double precision."""
        shape = self.problem.shape
        axes = {**self.problem.evaluation.axes(), "norm": ("weight",), **AXES}
        answers = {name: np.swapaxes(array, 0, 1) for name, array in recorded.stacked().items()}
        variables = {
            name: (("seed", "step", *axes[name]), np.asarray(array, dtype=np.float64))
            for name, array in {**answers, **measured}.items()
        }
        names = np.array(list(shape.weights))
        points = len(recorded.answers)
        dataset = xr.Dataset(
            variables,
            coords={
                "seed": list(self.seeds),
                "step": self.grid[:points],
                "layer": np.arange(shape.layers),
                "head": np.arange(shape.heads),
                "weight": names,
            },
            attrs={"setting": json.dumps(describe(self.setting), sort_keys=True)},
        )
        if points:
            dataset["diverged"] = ("seed", ~np.isfinite(recorded.answers[-1]["norm"]).all(-1))
        return dataset


def _leaves(state: State, recorded: _Recorded) -> dict[str, Shaped[Array, "..."] | AnyArray]:
    found: dict[str, Shaped[Array, "..."] | AnyArray] = {
        f"state.{place}": leaf for place, leaf in enumerate(jax.tree.leaves(state))
    }
    return found | {f"answer.{name}": array for name, array in recorded.stacked().items()}


def _next_budget(budget: int, taken: int, seconds: float) -> int:
    """Steps for about half a second; a record that cut a segment short does not shrink it."""
    fitting = int(taken * min(_SEGMENT_SECONDS / max(seconds, 1e-6), 8.0))
    return max(1, fitting if seconds > _SEGMENT_SECONDS else max(fitting, budget))
