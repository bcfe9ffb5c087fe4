"""Induction: attention-only decoders of several depths, and when each learns in context."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from saddlescope.checks import FloatArray, number, validated, whole_number, word_of
from saddlescope.errors import InvalidInput
from saddlescope.measure import change_point
from saddlescope.running import Checkpoint
from saddlescope.running.files import as_path
from saddlescope.running.parts import Within, borders
from saddlescope.setting.kinds import kind
from saddlescope.setting.nested import replace_fields
from saddlescope.setting.plain import describe
from saddlescope.transformer._decoder import DecoderShape, Positions
from saddlescope.transformer._experiment import AbstractExperiment
from saddlescope.transformer._metrics import remove_metrics
from saddlescope.transformer.sources import AbstractSource, BigramTriggers, RepeatedTokens, Text
from saddlescope.transformer.sources.bpe import BYTES
from saddlescope.transformer.sources.text import Encoding, read

# Records after the start that a change point takes, and the prefix matching of an induction head.
_FEWEST, _INDUCTION_HEAD = 3, 0.2


class Corpus(StrEnum):
    """The training data: repeated random tokens, a text, or bigrams with triggers.

    >>> [corpus.value for corpus in Corpus]
    ['repeated', 'text', 'triggers']
    """

    repeated = "repeated"
    text = "text"
    triggers = "triggers"


class Sign(StrEnum):
    """What an emergence is detected by: the in-context score, or prefix-matching heads.

    >>> [sign.value for sign in Sign]
    ['score', 'heads']
    """

    score = "score"
    heads = "heads"


@kind("experiment", "induction")
@validated
@dataclass(frozen=True)
class InductionExperiment(AbstractExperiment):
    """Attention-only decoders of each depth in `layers`, trained alike.

    - `corpus`: the training data, `repeated`, `text` or `triggers`.
    - `text_path`: the file or folder of a text; by default the standard library's sources.
    - `text_bytes`: how many bytes of the text to read.
    - `vocabulary`: how many tokens; for a text, bytes up to 256, byte pairs beyond.
    - `context`: the length of the context in tokens.
    - `positions`: `learned`, `rotary` or `none`.
    - `layer_norm`: whether every layer normalises its input.
    - `batch_size`: sequences per step.

    The defaults take some minutes on two cores. `large()` is for a GPU, `quick()` for tests.

    >>> InductionExperiment(layers=(2,), seeds=3).shape(2).d_head
    16
    """

    layers: tuple[int, ...] = (1, 2, 3, 4)
    seeds: ArrayLike = 1
    corpus: Corpus = Corpus.repeated
    text_path: str | None = None
    text_bytes: int = 4_000_000
    vocabulary: int = 64
    context: int = 128
    heads: int = 4
    d_model: int = 64
    positions: Positions = Positions.learned
    layer_norm: bool = True
    steps: int = 1500
    batch_size: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: int = 50
    cooldown: int = 0
    record: ArrayLike = 101

    def __post_init__(self) -> None:
        depths = {whole_number("layers", depth) for depth in np.ravel(self.layers).tolist()}
        if not depths:
            raise InvalidInput("layers", self.layers, "must be one depth or more")
        if self.text_path is not None and self.corpus != Corpus.text:
            raise InvalidInput("text_path", self.text_path, "is for the corpus text")
        whole = {
            name: whole_number(name, vars(self)[name])
            for name in ("vocabulary", "text_bytes", "batch_size")
        }
        self.settle(self.shape(min(depths)))
        vars(self).update(
            whole,
            layers=tuple(sorted(depths)),
            corpus=word_of("corpus", self.corpus, Corpus),
            text_path=None if self.text_path is None else str(self.text_path),
        )

    @staticmethod
    def large(corpus: object = Corpus.repeated, **changes: object) -> InductionExperiment:
        """For a GPU: a wider model, every depth, three seeds."""
        wide = InductionExperiment(
            seeds=3,
            corpus=word_of("corpus", corpus, Corpus),
            vocabulary=128,
            heads=8,
            d_model=256,
            steps=3000,
            batch_size=64,
            learning_rate=1e-3,
            warmup=100,
        )
        text = {"vocabulary": 1024, "steps": 2800, "text_bytes": 16_000_000}
        return replace_fields(wide, {**(text if wide.corpus is Corpus.text else {}), **changes})

    @staticmethod
    def quick(**changes: object) -> InductionExperiment:
        """For tests: one and two layers on short sequences, in seconds."""
        small = InductionExperiment(
            layers=(1, 2),
            vocabulary=32,
            context=32,
            heads=2,
            d_model=32,
            positions=Positions.rotary,
            steps=400,
            learning_rate=1e-2,
            warmup=20,
            record=21,
        )
        return replace_fields(small, changes)

    def shape(self, layers: int) -> DecoderShape:
        """The decoder of one depth."""
        is_bytes = self.corpus is Corpus.text and self.vocabulary <= BYTES
        return DecoderShape(
            vocabulary=BYTES if is_bytes else self.vocabulary,
            context=self.context,
            layers=layers,
            heads=self.heads,
            d_model=self.d_model,
            positions=self.positions,
            layer_norm=self.layer_norm,
        )

    def inputs(self) -> str:
        """A digest of the text, the only data from outside."""
        if self.corpus is not Corpus.text:
            return ""
        with _naming_text_path():
            return hashlib.sha256(read(self.text_path, self.text_bytes)).hexdigest()[:16]

    def make_source(self) -> AbstractSource:
        """The source of the training data."""
        if self.corpus is Corpus.repeated:
            eighth, half = max(self.context // 8, 1), self.context // 2
            return RepeatedTokens(self.vocabulary, self.context, shortest=eighth, longest=half)
        if self.corpus is Corpus.triggers:
            return BigramTriggers(self.vocabulary, self.context)
        encoding = Encoding.bytes if self.vocabulary <= BYTES else Encoding.bpe
        with _naming_text_path():
            return Text(
                self.text_path,
                context=self.context,
                encoding=encoding,
                vocabulary=self.vocabulary,
                most_bytes=self.text_bytes,
            )

    def run(self, folder: str | Path | None = None, observers: object = ()) -> xr.Dataset:
        """Train every depth; a dataset over (layers, seed, step, layer, head, position, weight).

        With a `folder`, the metrics of each finished depth are kept there, an unfinished depth in a
        checkpoint, and the same call resumes from them; at the end its `metrics.nc` holds
        everything. Layers that a depth does not have are NaN.
        """
        home = None if folder is None else as_path("folder", folder)
        metrics = self.load(home)
        if metrics is not None:
            return metrics
        source = self.make_source()
        # The work of a step grows with the depth.
        whole = borders([1.0 + depth for depth in self.layers])
        parts = [
            self._depth(depth, source, home, Within(observers, *part))
            for depth, part in zip(self.layers, whole, strict=True)
        ]
        metrics = xr.concat(parts, xr.IndexVariable("layers", list(self.layers)), join="outer")
        metrics = metrics.assign_attrs(parts[0].attrs, data=json.dumps(describe(source)))
        if home is not None:
            metrics = self.keep(metrics, home)
            for depth in self.layers:
                remove_metrics(home / f"layers_{depth}")
        return metrics

    def _depth(
        self, depth: int, source: AbstractSource, home: Path | None, observer: Within
    ) -> xr.Dataset:
        def train(checkpoint: Checkpoint | None) -> xr.Dataset:
            return self.train(self.shape(depth), source, checkpoint, [observer], self.batch_size)

        return self.resumed(train, home, f"layers_{depth}", f"layers_{depth}-checkpoint")


@contextmanager
def _naming_text_path() -> Iterator[None]:
    """Name the experiment's field where the path of its text is wrong."""
    try:
        yield
    except InvalidInput as problem:
        if problem.field != "path":
            raise
        raise InvalidInput("text_path", problem.value, problem.allowed) from None


def emergence(
    dataset: object, by: object = Sign.score, *, factor: object = math.e, explained: object = 0.9
) -> xr.DataArray:
    """The step at which in-context learning emerged, [layers, seed]; NaN where it did not.

    - `by="score"`: the first recorded step after the middle of the change point of the in-context
      score (`measure.change_point`), if that is an abrupt fall: within a `factor` of the steps, and
      explaining at least the share `explained` of the variance.
    - `by="heads"`: the same of the prefix matching of the best head, where that ends as an
      induction head, with .2 or more; it may grow slowly.

    One layer also lowers its loss by the context, since tokens that have occurred are more likely
    to occur again, but by less, slowly and without such a head; deep decoders may do without one.

    >>> import numpy, xarray
    >>> axes = ("layers", "seed", "step")
    >>> scores = numpy.array([[[0., 0, 0, -3, -4, -4, -4, -4, -4, -4]]])
    >>> course = xarray.Dataset({"in_context_score": (axes, scores)})
    >>> steps = {"layers": [2], "seed": [0], "step": 10 * numpy.arange(10)}
    >>> emergence(course.assign_coords(steps)).item()
    30.0
    """
    sign = word_of("by", by, Sign)
    needed = "in_context_score" if sign is Sign.score else "prefix_matching"
    if not isinstance(dataset, xr.Dataset) or needed not in dataset:
        raise InvalidInput("dataset", dataset, "must be what InductionExperiment.run returns")
    steps = dataset["step"].to_numpy()
    bounds = number("factor", factor, above=0), number("explained", explained)

    def when(curve: FloatArray) -> float:
        if np.isfinite(curve[steps > 0]).sum() < _FEWEST:
            return np.nan
        change = change_point(curve, steps)
        if sign is Sign.heads:
            emerged = change.after >= _INDUCTION_HEAD
        else:
            emerged = change.after < change.before and change.is_abrupt(*bounds)
        return float(steps[np.searchsorted(steps, change.middle)]) if emerged else np.nan

    curves = dataset[needed]
    if sign is Sign.heads:
        curves = curves.max(("layer", "head"))
    found = xr.apply_ufunc(when, curves, input_core_dims=[["step"]], vectorize=True)
    return found.rename("emergence")
