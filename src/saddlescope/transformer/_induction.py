"""Induction: attention-only decoders of several depths, and when each learns in context."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.checks import number, seed_labels, whole_number, word_of
from saddlescope.errors import InvalidInput
from saddlescope.running.progress import Progress, Report
from saddlescope.setting.kinds import kind
from saddlescope.setting.plain import describe
from saddlescope.transformer._checkpoint import remove_checkpoint
from saddlescope.transformer._decoder import DecoderShape, Positions
from saddlescope.transformer._experiment import AbstractExperiment
from saddlescope.transformer._metrics import save_metrics
from saddlescope.transformer._optimiser import AdamW
from saddlescope.transformer._training import fit, recorded_steps
from saddlescope.transformer.sources import AbstractSource, BigramTriggers, RepeatedTokens, Text
from saddlescope.transformer.sources.bpe import BYTES
from saddlescope.transformer.sources.text import Encoding, read


class Corpus(StrEnum):
    """What decoders are trained on: repeated random tokens, a text, or bigrams with triggers."""

    repeated = "repeated"
    text = "text"
    triggers = "triggers"


@kind("experiment", "induction")
@dataclass(frozen=True, init=False)
class InductionExperiment(AbstractExperiment):
    """Attention-only decoders of each depth in `layers`, trained alike.

    - `corpus`: what they are trained on, `repeated`, `text` or `triggers`.
    - `text_path`: the file or folder of a text; none for the standard library's sources.
    - `text_bytes`: how much of the text is taken.
    - `vocabulary`: how many tokens; of a text, byte pairs beyond 256, and bytes otherwise.
    - `context`: how many tokens are read.
    - `positions`: `learned`, `rotary` or `none`.
    - `layer_norm`: whether every layer normalises what it reads.
    - `batch_size`: sequences in a step.

    The defaults take some minutes on two cores. `large()` is for a GPU, `quick()` for tests.

    >>> InductionExperiment(layers=(2,), seeds=3).shape(2).d_head
    16
    """

    layers: tuple[int, ...]
    seeds: tuple[int, ...]
    corpus: Corpus
    text_path: str | None
    text_bytes: int
    vocabulary: int
    context: int
    heads: int
    d_model: int
    positions: Positions
    layer_norm: bool
    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    warmup: int
    record: tuple[int, ...]

    def __init__(
        self,
        layers: object = (1, 2, 3, 4),
        seeds: object = 1,
        corpus: object = Corpus.repeated,
        text_path: object = None,
        text_bytes: object = 4_000_000,
        vocabulary: object = 64,
        context: object = 128,
        heads: object = 4,
        d_model: object = 64,
        positions: object = Positions.learned,
        layer_norm: object = True,
        steps: object = 1500,
        batch_size: object = 32,
        learning_rate: object = 3e-3,
        weight_decay: object = 0.0,
        betas: object = (0.9, 0.99),
        warmup: object = 50,
        record: object = 101,
    ) -> None:
        given = np.asarray(layers).ravel().tolist()
        depths = sorted({whole_number("layers", depth) for depth in given})
        if not depths:
            raise InvalidInput("layers", layers, "must be one depth or more")
        words = word_of("corpus", corpus, Corpus)
        if text_path is not None and words is not Corpus.text:
            raise InvalidInput("text_path", text_path, "is for the corpus text")
        last = whole_number("steps", steps)
        shape = DecoderShape(
            vocabulary,
            context,
            heads=heads,
            d_model=d_model,
            positions=positions,
            layer_norm=layer_norm,
        )
        optimiser = AdamW(learning_rate, weight_decay, betas, warmup)
        vars(self).update(
            layers=tuple(depths),
            seeds=seed_labels(seeds),
            corpus=words,
            text_path=None if text_path is None else str(text_path),
            text_bytes=whole_number("text_bytes", text_bytes),
            vocabulary=shape.vocabulary,
            context=shape.context,
            heads=shape.heads,
            d_model=shape.d_model,
            positions=shape.positions,
            layer_norm=shape.layer_norm,
            steps=last,
            batch_size=whole_number("batch_size", batch_size),
            record=tuple(recorded_steps(last, record).tolist()),
            **dataclasses.asdict(optimiser),
        )

    @staticmethod
    def large(corpus: object = Corpus.repeated, **changes: object) -> InductionExperiment:
        """For a GPU: a wider model, every depth, three seeds."""
        wide: dict[str, object] = {
            "seeds": 3,
            "corpus": corpus,
            "d_model": 256,
            "heads": 8,
            "learning_rate": 1e-3,
        }
        wide |= {"batch_size": 64, "warmup": 100, "record": 101}
        if word_of("corpus", corpus, Corpus) is Corpus.text:
            wide |= {"vocabulary": 1024, "steps": 2800, "text_bytes": 16_000_000}
        else:
            wide |= {"vocabulary": 128, "steps": 3000}
        return InductionExperiment(**{**wide, **changes})

    @staticmethod
    def quick(**changes: object) -> InductionExperiment:
        """For tests: one and two layers on short sequences, in seconds."""
        small: dict[str, object] = {"layers": (1, 2), "vocabulary": 32, "context": 32, "heads": 2}
        small |= {"d_model": 32, "positions": Positions.rotary, "learning_rate": 1e-2}
        small |= {"warmup": 20, "steps": 400, "record": 21}
        return InductionExperiment(**{**small, **changes})

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
        """A digest of the text that is read; nothing else comes from outside."""
        if self.corpus is not Corpus.text:
            return ""
        return hashlib.sha256(read(self.text_path, self.text_bytes)).hexdigest()[:16]

    def make_source(self) -> AbstractSource:
        """What the decoders are trained on."""
        if self.corpus is Corpus.repeated:
            eighth, half = max(self.context // 8, 1), self.context // 2
            return RepeatedTokens(self.vocabulary, self.context, shortest=eighth, longest=half)
        if self.corpus is Corpus.triggers:
            return BigramTriggers(self.vocabulary, self.context)
        encoding = Encoding.bytes if self.vocabulary <= BYTES else Encoding.bpe
        return Text(
            self.text_path,
            context=self.context,
            encoding=encoding,
            vocabulary=self.vocabulary,
            most_bytes=self.text_bytes,
        )

    def run(self, folder: str | Path | None = None, progress: Report | None = None) -> xr.Dataset:
        """Train every depth; a dataset over (layers, seed, step, layer, head, position, weight).

        With a `folder`, the metrics of each finished depth are kept there, an unfinished depth
        survives in a checkpoint, and the same call goes on from them; at the end `metrics.nc` holds
        all. Layers that a depth does not have are NaN.
        """
        home = None if folder is None else Path(folder)
        if home is not None and (home / "metrics.nc").exists():
            return self.load(home / "metrics.nc")
        source, shares = self.make_source(), _Shares(self.layers, progress)
        parts = [self._depth(depth, source, home, shares.of(depth)) for depth in self.layers]
        whole = xr.concat(parts, xr.IndexVariable("layers", list(self.layers)), join="outer")
        whole = whole.assign_attrs(data=json.dumps(describe(source)), **self._names())
        if home is not None:
            save_metrics(whole, home / "metrics.nc")
            for depth in self.layers:
                (home / f"layers_{depth}.nc").unlink(missing_ok=True)
        return whole

    def _names(self) -> dict[str, str]:
        return {"setting": self.setting(), "inputs": self.inputs()}

    def _depth(
        self, depth: int, source: AbstractSource, home: Path | None, progress: Report | None
    ) -> xr.Dataset:
        if home is not None and (home / f"layers_{depth}.nc").exists():
            return self.load(home / f"layers_{depth}.nc")
        found = fit(
            self.shape(depth),
            source,
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            betas=self.betas,
            warmup=self.warmup,
            seeds=self.seeds,
            record=self.record,
            progress=progress,
            checkpoint=None if home is None else home / f"layers_{depth}",
        ).dataset.assign_attrs(self._names())
        if home is not None:
            save_metrics(found, home / f"layers_{depth}.nc")
            remove_checkpoint(home / f"layers_{depth}")
        return found


def emergence(
    dataset: object,
    *,
    way: object = 0.5,
    least_saving: object = 0.5,
    least_prefix_matching: object = 0.2,
) -> xr.DataArray:
    """The step at which in-context learning emerged, [layers, seed]; NaN where it did not.

    It is the first recorded step from which on the in-context score stays beyond the share `way` of
    its path from the first record to its end (the mean of the last tenth of the records). It counts
    only where the context ends up saving the share `least_saving` of the loss early in it, or some
    head ends as an induction head, with a prefix-matching score of `least_prefix_matching` or more.
    One layer also lowers its loss by the context, since tokens that have occurred are more likely
    to occur again, but by less and without such a head; deep decoders may do without one.
    """
    if not isinstance(dataset, xr.Dataset) or "in_context_score" not in dataset:
        raise InvalidInput("dataset", dataset, "must be what InductionExperiment.run returns")
    share = number("way", way, above=0)
    score, tenth = dataset["in_context_score"], max(dataset.sizes["step"] // 10, 1)
    end = dataset.isel(step=slice(-tenth, None)).mean("step")
    first, last = score.isel(step=0), end["in_context_score"]
    short = score > first + share * (last - first)
    # The step after the last record that had not come so far.
    later = dataset["step"].where(short).max("step")
    step = dataset["step"].where(dataset["step"] > later.fillna(-1)).min("step")
    saved = -last >= number("least_saving", least_saving) * end["early_loss"]
    heads = end["prefix_matching"].max(("layer", "head"))
    matched = heads >= number("least_prefix_matching", least_prefix_matching)
    return step.where((last < first) & (saved | matched)).rename("emergence")


class _Shares:
    """Progress of each depth as that of the whole; the work of a step grows with the depth."""

    def __init__(self, layers: Sequence[int], progress: Report | None) -> None:
        self._layers, self._progress = tuple(layers), progress
        self._began = time.monotonic()

    def of(self, depth: int) -> Report | None:
        """What a depth reports to."""
        report = self._progress
        if report is None:
            return None
        whole = sum(1 + layers for layers in self._layers)
        before = sum(1 + layers for layers in self._layers if layers < depth)

        def report_part(part: Progress) -> None:
            share = (before + (1 + depth) * part.share) / whole
            report(Progress(share, time.monotonic() - self._began))

        return report_part
