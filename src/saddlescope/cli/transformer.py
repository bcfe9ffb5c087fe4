"""`saddlescope transformer`: induction and grokking, measured and judged; writes a page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.checks import word_of
from saddlescope.cli import options
from saddlescope.cli.flags import only_fields
from saddlescope.cli.judged import make_and_show, with_fields

if TYPE_CHECKING:
    from saddlescope.figures import AbstractFigure

EXAMPLE = "Watch small transformers learn in context, and grok."
INDUCTION = """Watch in-context learning emerge in decoders of several depths.

\b
Examples:
  saddlescope transformer induction                       minutes on two cores
  saddlescope transformer induction --seeds 3 --layers 1,2
  saddlescope transformer induction --preset large        for a GPU
  saddlescope transformer induction --corpus text         Python's own sources

Trains attention-only decoders, shows loss, in-context score, prefix matching, ranks and subspace
distances on one time axis, and judges the claims about them. To resume an interrupted run, give the
same command again. The exit code is 1 if a verdict is not the expected one.
"""
GROKKING = """Watch a decoder on modular arithmetic grok.

\b
Examples:
  saddlescope transformer grokking                  p = 53: about a minute
  saddlescope transformer grokking --preset large   p = 113: for a GPU
  saddlescope transformer grokking --operation multiply --seeds 3

Shows losses, accuracies, frequencies, ranks and subspace distances on one time axis, and judges the
claims about them. To resume an interrupted run, give the same command again. The exit code is 1 if
a verdict is not the expected one.
"""


class Preset(StrEnum):
    """Sizes of an experiment."""

    default = "default"
    large = "large"
    quick = "quick"


# A string, so that what is wrong with it is said in our own words.
PresetOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="default (two cores), large (a GPU) or quick (a first look)."
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The folder; out/NAME by default.")
]


def induction(
    words: options.Fields = None,
    preset: PresetOption = "default",
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures.mainali.induction import Induction
    from saddlescope.transformer import Corpus

    texts, size = only_fields(words), word_of("preset", preset, Preset)
    more: tuple[str, ...] = ()
    if size is Preset.large:
        more = ("--corpus", word_of("corpus", texts.get("corpus", Corpus.repeated), Corpus))
    _make(Induction, size, more, texts, out, as_json)


def grokking(
    words: options.Fields = None,
    preset: PresetOption = "default",
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures.mainali.grokking import Grokking

    _make(Grokking, word_of("preset", preset, Preset), (), only_fields(words), out, as_json)


def experiment_help(verb: str) -> str:
    """The fields of an experiment."""
    from saddlescope.cli.flags import field_lines
    from saddlescope.setting.kinds import find_kind

    cls = find_kind("experiment", verb, "experiment")
    return "\n".join(["", "The fields of the experiment:", *field_lines(cls)])


def _make(
    kind: type[AbstractFigure],
    size: Preset,
    more: tuple[str, ...],
    texts: dict[str, str],
    out: Path | None,
    as_json: bool,
) -> None:
    """Make the preset of a figure that a size, and `more` words, choose."""
    from saddlescope.figures import EXPERIMENTS

    words = () if size is Preset.default else ("--preset", size.value, *more)
    figures = with_fields([kind.presets()[words]], texts)
    folder = out or Path("out") / kind.id
    title = "Small transformers, measured and judged"
    make_and_show(figures, EXPERIMENTS, folder, films=False, as_json=as_json, title=title)
