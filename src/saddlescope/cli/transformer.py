"""`saddlescope transformer`: induction and grokking, measured and judged; writes a page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saddlescope.cli import options
from saddlescope.cli.flags import split_words
from saddlescope.cli.judged import make_and_show, with_fields
from saddlescope.errors import InvalidInput

EXAMPLE = "Small transformers: how in-context learning emerges, and grokking."
INDUCTION = """Train attention-only decoders of several depths and watch in-context learning emerge.

\b
Examples:
  saddlescope transformer induction                       minutes on two cores
  saddlescope transformer induction --seeds 3 --layers 1,2
  saddlescope transformer induction --preset large        for a GPU
  saddlescope transformer induction --corpus text         Python's own sources

Shows loss, in-context score, prefix matching, ranks and subspace distances on one time axis, and
judges the claims about them. Fields: layers, seeds, corpus (repeated, text, triggers), text-path,
text-bytes, vocabulary, context, heads, d-model, positions, layer-norm, steps, batch-size,
learning-rate, weight-decay, betas, warmup, record. An interrupted run goes on when the same command
is given again. The exit code is 1 if a verdict is not the expected one.
"""
GROKKING = """Train a decoder on modular arithmetic until it groks, and watch how.

\b
Examples:
  saddlescope transformer grokking                  p = 53: about a minute
  saddlescope transformer grokking --preset large   p = 113: for a GPU
  saddlescope transformer grokking --operation multiply --seeds 3

Shows losses, accuracies, frequencies, ranks and subspace distances on one time axis, and judges the
claims about them. Fields: p, share, operation, seeds, layers, heads, d-model, d-mlp, steps,
learning-rate, weight-decay, betas, warmup, record. An interrupted run goes on when the same command
is given again. The exit code is 1 if a verdict is not the expected one.
"""


class Preset(StrEnum):
    """Sizes of an experiment."""

    default = "default"
    large = "large"
    quick = "quick"


Fields = Annotated[
    list[str] | None, typer.Argument(metavar="--FIELD VALUE", help="Fields of the experiment.")
]
PresetOption = Annotated[Preset, typer.Option(help="For two cores, a GPU, or a first look.")]
Out = Annotated[Path | None, typer.Option(help="The folder; out/NAME by default.")]


def induction(
    words: Fields = None,
    preset: PresetOption = Preset.default,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures.mainali.induction import Induction
    from saddlescope.transformer import InductionExperiment

    texts = _texts(words)
    if preset is Preset.large:
        figure = Induction.of(InductionExperiment.large(texts.get("corpus", "repeated")))
    else:
        figure = Induction.quick() if preset is Preset.quick else Induction()
    _carry_out(figure, texts, out, as_json)


def grokking(
    words: Fields = None,
    preset: PresetOption = Preset.default,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures.mainali.grokking import Grokking
    from saddlescope.transformer import GrokkingExperiment

    if preset is Preset.large:
        figure = Grokking.of(GrokkingExperiment.large())
    else:
        figure = Grokking.quick() if preset is Preset.quick else Grokking()
    _carry_out(figure, _texts(words), out, as_json)


def _texts(words: list[str] | None) -> dict[str, str]:
    names, texts = split_words(words or [])
    if names:
        raise InvalidInput("words", names[0], "fields are given as --field value")
    return texts


def _carry_out(figure: Any, texts: dict[str, str], out: Path | None, as_json: bool) -> None:
    from saddlescope.figures import EXPERIMENTS

    (changed,) = with_fields([figure], texts)
    folder = out or Path("out") / figure.id
    title = "Small transformers, measured and judged"
    make_and_show([changed], EXPERIMENTS, folder, films=False, as_json=as_json, title=title)
