"""`Recorder`: the instruments on a live run, in three lines of a plain training loop."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray, whole_number
from saddlescope.errors import SaddlescopeError
from saddlescope.observe import adapters
from saddlescope.observe._heads import HeadOptions
from saddlescope.observe._probe import Ask, Probe
from saddlescope.observe._undisturbed import undisturbed
from saddlescope.observe._watch import Extra, Watch
from saddlescope.observe.adapters import AbstractAdapter
from saddlescope.observe.dataset import load
from saddlescope.observe.snapshot import weights_of
from saddlescope.observe.store import LIVE, Record, Store
from saddlescope.observe.weights import AbstractWeights, ModelWeights
from saddlescope.running.files import as_path

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from saddlescope.transformer import Decoder

log = logging.getLogger("saddlescope")

_NAME = "observed"


class Recorder:
    """Measures every head of a model as it is trained, and never changes the run.

        recorder = ss.observe.Recorder(model, every=100)
        for batch in batches:
            ...
            optimiser.step()
            recorder.step(loss=loss)
        recorder.close()

    The weights are measured before the first step, after every `every` steps and, by `close`, at
    the last step; the loss of every step is kept. `load(recorder.out)` reads the folder any time.

    - `out`: the folder; by default out/observed, or out/observed-2 and so on if that exists.
    - `resume`: continue an observation that is in the folder already. `start` is the number of
      steps taken so far; records of the earlier session at later steps are superseded.
    - `tokens[batch, position]`: a tokenised batch on which to measure the in-context score (from
      the predicted tokens `early` and `late`) and prefix matching. For a model of your own, `probe`
      is a function of the model and the tokens that returns logits and a list of attention
      patterns.
    - `adapter`, `heads`: the model's family and number of heads, where they cannot be inferred.
    - `fold_norms`, `directions`: as in `look`.

    In a distributed run the process of rank 0 writes and the others do nothing. A measurement that
    fails is noted in the record, and the run continues.

    >>> import tempfile, torch
    >>> model = torch.nn.MultiheadAttention(8, 2)
    >>> with Recorder(model, every=2, out=tempfile.mkdtemp()) as recorder:
    ...     for _ in range(4):
    ...         recorder.step(loss=torch.tensor(1.0))
    >>> recorder.dataset.step.values.tolist(), recorder.dataset.sizes["head"]
    ([0, 2, 4], 2)
    """

    def __init__(
        self,
        model: Module | Decoder,
        every: object = 100,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        start: object = 0,
        tokens: object = None,
        probe: Ask | None = None,
        early: object = None,
        late: object = None,
        adapter: AbstractAdapter | str | None = None,
        heads: object = None,
        fold_norms: bool = False,
        directions: int = 4,
    ) -> None:
        self.every = whole_number("every", every)
        self._step = self._recorded = whole_number("start", start, at_least=0)
        self._losses: list[tuple[int, Tensor | float]] = []
        self._has_failed = False
        self._watch: Watch | None = None
        options = HeadOptions(directions, fold_norms, adapter)
        self._probe = None if tokens is None else Probe.of(tokens, probe, early, late)
        self._heads = heads
        self._look_at(model, readable(model, heads, adapter))
        self.out = output_folder(out, Path("out"), is_new=not resume)
        if _rank():
            return
        store = Store.open(self.out, LIVE, options.kept, resume=resume)
        session = max((record.session for record in store.records()), default=-1) + 1
        self._watch = Watch(store, options, session)
        self._record()
        self._keep()

    @property
    def dataset(self) -> xr.Dataset:
        """Everything recorded so far."""
        return load(self.out)

    def step(
        self,
        loss: Tensor | float | None = None,
        *,
        step: object = None,
        model: Module | Decoder | None = None,
    ) -> None:
        """Report one step, after the optimiser's, with its loss.

        `step` is its number, by default one more than before. `model` replaces the model from here
        on, where every step makes a new one, as with a `saddlescope.transformer.Decoder`.
        """
        if self._watch is None:
            return
        if model is not None:
            self._look_at(model, weights_of(model, self._heads))
        number = self._step + 1 if step is None else whole_number("step", step, at_least=0)
        is_due = number // self.every > self._step // self.every
        self._step = number
        if loss is not None:
            self.note_loss(number, loss)
        if is_due:
            self._record()

    def note_loss(self, step: int, loss: Tensor | float) -> None:
        """Keep the loss of a step; a tensor stays on its device until the next record."""
        if self._watch is not None:
            self._losses.append((step, _as_loss(loss)))

    def close(self) -> None:
        """Record the last step and release the folder."""
        if self._watch is None:
            return
        if self._step > self._recorded:
            self._record()
        elif self._losses:
            # Losses that were reported after their step was recorded.
            self._append(*_gathered(self._losses))
        self._keep()
        self._watch.store.close()
        self._watch = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _look_at(self, model: Module | Decoder, weights: AbstractWeights) -> None:
        self._weights = weights
        # The model inside a wrapper is called directly: the wrapper may compile or communicate.
        inner = weights.model if isinstance(weights, ModelWeights) else None
        self._model = model if inner is None else inner
        self._guard = nullcontext if inner is None else partial(undisturbed, inner)

    def _record(self) -> None:
        """Measure and write; a failure costs this record, not the run."""
        assert self._watch is not None
        arrays, lost = _gathered(self._losses)
        self._recorded, problems = self._step, lost
        try:
            with self._guard():
                if self._probe is not None:
                    scores, failed = self._probe.measure(self._model)
                    arrays, problems = {**arrays, **scores}, [*problems, *failed]
                notes = () if self._probe is None else (self._probe.note,)
                extra = Extra(arrays, tuple(problems), notes)
                record = self._watch.look(self._step, self._weights, extra)
            self._losses.clear()
            problems = list(record.problems)
        except SaddlescopeError as problem:
            problems = [str(problem)]
        except Exception as problem:
            problems = [f"{type(problem).__name__}: {' '.join(str(problem).split())}"]
            self._append(arrays, problems)
        if problems and not self._has_failed:
            self._has_failed = True
            text = "at step %d not everything was measured, and the run goes on: %s"
            log.warning(text, self._step, problems[0])

    def _keep(self) -> None:
        """Keep the directions; only at the beginning and the end, since they leave the device."""
        assert self._watch is not None
        try:
            self._watch.keep()
        except SaddlescopeError as problem:
            log.warning("a resumed run will not know how far heads have turned: %s", problem)

    def _append(self, arrays: Mapping[str, AnyArray], problems: list[str]) -> None:
        """Append a record without measures: the losses, and why there is nothing else."""
        assert self._watch is not None
        record = Record(self._step, self._watch.session, arrays, problems=tuple(problems))
        try:
            self._watch.store.append(record)
            self._losses.clear()
        except SaddlescopeError as problem:
            problems.append(str(problem))


def readable(model: Module | Decoder, heads: object, adapter: object) -> AbstractWeights:
    """The weights of a model; one without a readable layer is bad input."""
    weights = weights_of(model, heads)
    family, layers = adapters.find(weights, adapter)
    family.read(weights, layers[0])
    return weights


def _as_loss(loss: object) -> Tensor | float:
    """A loss to keep; NaN if it is not a number, since that must not stop the run."""
    import torch

    if torch.is_tensor(loss):
        return loss.detach().clone()
    try:
        return float(loss)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _gathered(losses: list[tuple[int, Tensor | float]]) -> tuple[dict[str, AnyArray], list[str]]:
    """The losses in NumPy, copied from their device in one go."""
    import torch

    if not losses:
        return {}, []
    try:
        parts = [torch.as_tensor(loss).double().mean() for _, loss in losses]
        values = torch.stack([part.to(parts[0].device) for part in parts]).cpu().numpy()
    except Exception as problem:
        return {}, [f"loss: {type(problem).__name__}: {problem}"]
    return {"loss_step": np.array([step for step, _ in losses]), "loss": values}, []


def _rank() -> int:
    import torch.distributed as distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return 0


def output_folder(out: str | Path | None, parent: Path, *, is_new: bool) -> Path:
    """The folder to write to: by default `observed`, or the first free name for a new run."""
    if out is not None:
        return as_path("out", out)
    candidate, number = parent / _NAME, 1
    while is_new and candidate.exists():
        number += 1
        candidate = parent / f"{_NAME}-{number}"
    return candidate
