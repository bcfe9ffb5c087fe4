"""`fit`: a decoder trained by AdamW and measured at recorded steps."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Int

from saddlescope.checks import list_seeds, seed_labels, whole_number
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.loop import run_job
from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.setting.kinds import kind
from saddlescope.setting.plain import describe, digest
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

# Steps of the first segment, in which everything is compiled.
_FIRST_SEGMENT = 4
# The number of sequences on which the loss is recorded, the same for every seed.
_HELD_OUT = 256
_HELD_OUT_KEY = 2**31 - 1
# The name of evaluated quantities in a checkpoint, beside the weights.
_ANSWER = "answer."


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished training: its metrics and final weights.

    >>> from saddlescope.transformer import RepeatedTokens
    >>> source = RepeatedTokens(8, context=16, shortest=2, longest=8)
    >>> shape = DecoderShape(8, 16, layers=1, heads=2, d_model=8)
    >>> fit(shape, source, steps=4, record=3).decoder(seed=0).shape.layers
    1
    """

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
    cooldown: object = 0,
    seeds: object = 1,
    record: object = 101,
    evaluation: AbstractEvaluation | None = None,
    together: bool | None = None,
    observers: object = (),
) -> Fit:
    """Train a decoder on a source by AdamW and measure it at recorded steps.

    - `warmup`, `cooldown`: the number of first steps over which the learning rate rises, and of
      last steps over which it falls to 0.
    - `seeds`: how many, or which. A seed determines its initial weights and its batches.
    - `record`: how many recorded steps, evenly spaced from 0 to the last, or which ones.
    - `evaluation`: what to evaluate at recorded steps; by default losses, in-context score and
      prefix matching, and for modular arithmetic losses and accuracies.
    - `together`: train all seeds in one batch (the default on a GPU) or one after another within a
      segment (on a CPU); a seed's results differ by amplified rounding errors.
    - `observers`: called at every segment border, as in `train`; with `Checkpoint(path)` the same
      call resumes where it was interrupted, to the same bits.

    The dataset is over (seed, step, layer, head, position, weight), as described in
    `saddlescope.transformer`; distances are to the weights at the last step, and a seed that
    diverged is marked in `diverged` and has NaN from there on. Ctrl-C raises `Interrupted`, whose
    `snapshot.dataset` holds what had been evaluated.

    >>> from saddlescope.transformer import RepeatedTokens
    >>> source = RepeatedTokens(8, context=16, shortest=2, longest=8)
    >>> shape = DecoderShape(8, 16, layers=1, heads=2, d_model=8)
    >>> fit(shape, source, steps=4, record=3).dataset["loss"].dims
    ('seed', 'step')
    """
    made, drawn = _checked(shape, source)
    optimiser = AdamW(learning_rate, weight_decay, betas, warmup, cooldown)
    size, chosen = whole_number("batch_size", batch_size), seed_labels(seeds)
    grid = recorded_steps(whole_number("steps", steps), record)
    problem = Problem(
        source=drawn,
        evaluation=_evaluation(drawn) if evaluation is None else evaluation,
        shape=made,
        optimiser=optimiser.traced(),
        steps=jnp.asarray(grid[-1]),
        batch_size=size,
        together=jax.default_backend() != "cpu" if together is None else bool(together),
    )
    return run_job(_Training(problem, optimiser, chosen, grid), observers)


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
    """All that a training depends on; the last recorded step is its last step."""

    shape: DecoderShape
    source: AbstractSource
    optimiser: AdamW
    batch_size: int
    seeds: tuple[int, ...]
    record: tuple[int, ...]
    evaluation: str


@dataclass(frozen=True, eq=False)
class _Progress:
    """A training between two segments, with what has been recorded so far."""

    state: State
    weights: tuple[Arrays, ...] = ()
    """At every recorded step those from which circuits are made, [seed, …]."""
    answers: tuple[Arrays, ...] = ()
    """At every recorded step those of the evaluation, [seed, …]."""


@dataclass(frozen=True, eq=False)
class _Training(AbstractJob[_Progress, Fit]):
    """A training prepared to run, one segment at a time."""

    problem: Problem
    optimiser: AdamW
    seeds: tuple[int, ...]
    grid: Int[np.ndarray, " record"]

    first_budget = _FIRST_SEGMENT

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
        """Identifies the training; it can be resumed with seeds together or one after another."""
        return digest(describe(self.setting))

    def begin(self) -> _Progress:
        return self._record(_Progress(begin(self.problem, self.seeds)))

    def advance(self, state: _Progress, budget: int) -> tuple[_Progress, int]:
        done, target = int(state.state.step), int(self.grid[len(state.answers)])
        count = min(target - done, budget)
        keys = batch_keys(self.seeds)
        moved = jax.block_until_ready(advance(self.problem, keys, state.state, count))
        return self._record(replace(state, state=moved)), count

    def share(self, state: _Progress) -> float:
        return int(state.state.step) / int(self.grid[-1])

    def is_finished(self, state: _Progress) -> bool:
        return len(state.answers) == len(self.grid)

    def result(self, state: _Progress) -> Fit:
        weights = {name: np.asarray(array) for name, array in state.state.weights.items()}
        return Fit(self.dataset(state), self.problem.shape, weights)

    def save(self, state: _Progress) -> Saved:
        leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(state.state))
        records = tuple(
            {**weights, **{_ANSWER + name: array for name, array in answers.items()}}
            for weights, answers in zip(state.weights, state.answers, strict=True)
        )
        return Saved(leaves, records)

    def restore(self, saved: Saved) -> _Progress:
        fresh, structure = jax.tree.flatten(begin(self.problem, self.seeds))
        shapes = [(leaf.shape, leaf.dtype) for leaf in fresh]
        if [(leaf.shape, leaf.dtype) for leaf in saved.state] != shapes:
            raise CannotRead("its state is not one of this training's")
        state = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved.state])
        names = kept_names(self.problem.shape)
        if len(saved.records) > len(self.grid) or any(set(names) - set(r) for r in saved.records):
            raise CannotRead("its records are not those of this training")
        return _Progress(
            state,
            tuple({name: record[name] for name in names} for record in saved.records),
            tuple(
                {
                    name.removeprefix(_ANSWER): array
                    for name, array in record.items()
                    if name.startswith(_ANSWER)
                }
                for record in saved.records
            ),
        )

    def _record(self, state: _Progress) -> _Progress:
        """The same training, measured if its step is to be recorded."""
        if int(state.state.step) != self.grid[len(state.answers)]:
            return state
        computed, norms = jax.tree.map(np.asarray, evaluate(self.problem, state.state))
        finish, seeds = self.problem.evaluation.finish, range(len(self.seeds))
        answers = [
            finish({name: array[seed] for name, array in computed.items()}) for seed in seeds
        ]
        by_name = {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}
        names = kept_names(self.problem.shape)
        weights = {name: np.asarray(state.state.weights[name]) for name in names}
        return replace(
            state,
            weights=(*state.weights, weights),
            answers=(*state.answers, {**by_name, "norm": norms}),
        )

    def dataset(self, state: _Progress) -> xr.Dataset:
        """Labelled, in double precision; distances are to the last of the records."""
        shape, points = self.problem.shape, len(state.answers)
        axes = {**self.problem.evaluation.axes(), "norm": ("weight",), **AXES}
        recorded: Arrays = {}
        if points:
            recorded = {
                name: np.stack([answer[name] for answer in state.answers], axis=1)
                for name in state.answers[0]
            } | measure_course(shape, state.weights)
        variables = {
            name: (("seed", "step", *axes[name]), np.asarray(array, dtype=np.float64))
            for name, array in recorded.items()
        }
        dataset = xr.Dataset(
            variables,
            coords={
                "seed": list(self.seeds),
                "step": self.grid[:points],
                "layer": np.arange(shape.layers),
                "head": np.arange(shape.heads),
                "weight": np.array(list(shape.weights)),
            },
            attrs={"setting": json.dumps(describe(self.setting), sort_keys=True)},
        )
        if points:
            dataset["diverged"] = ("seed", ~np.isfinite(state.answers[-1]["norm"]).all(-1))
        return dataset
