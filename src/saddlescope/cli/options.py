"""The flags that verbs share: the fields of a setting in kebab case."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer


class Model(StrEnum):
    """The models that the command line knows."""

    separate = "separate"
    merged = "merged"


class Normalisation(StrEnum):
    """What attention is divided by."""

    context = "context"
    none = "none"


Spectrum = Annotated[
    str, typer.Option(help="Eigenvalues of Λ: .4,.3,.2,.1 or white:4 or power:8:1.")
]
ContextLength = Annotated[
    str, typer.Option(help="N, the pairs in the context: 31 or uniform:8:32.")
]
TaskCovariance = Annotated[
    str | None, typer.Option(help="Variances of the task vector along the axes; all 1 by default.")
]
QueryCovariance = Annotated[
    str | None, typer.Option(help="Variances of the query; those of the context by default.")
]
LabelNoise = Annotated[float, typer.Option(help="Standard deviation of the noise on the labels.")]
ModelOption = Annotated[Model, typer.Option(help="Separate or merged key and query.")]
Heads = Annotated[int, typer.Option(help="H, the number of heads.")]
Rank = Annotated[int, typer.Option(help="R, the rank of key and query (separate attention).")]
NormalisationOption = Annotated[Normalisation, typer.Option(help="Attention divided by N, or not.")]
InitScale = Annotated[float, typer.Option(help="w, the scale of the papers' random start.")]
Seeds = Annotated[int, typer.Option(help="How many random starts.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def make_task(
    spectrum: str,
    context_length: str,
    task_covariance: str | None,
    query_covariance: str | None,
    label_noise: float,
) -> Any:
    """The task that the flags name."""
    from saddlescope.task import InContextRegression

    return InContextRegression(
        spectrum=spectrum,
        context_length=context_length,
        task_covariance=task_covariance,
        query_covariance=query_covariance,
        label_noise=label_noise,
    )


def make_model(model: Model, heads: int, rank: int, normalisation: Normalisation) -> Any:
    """The model that the flags name."""
    from saddlescope.attention import MergedAttention, SeparateAttention
    from saddlescope.errors import InvalidInput

    if model is Model.separate:
        return SeparateAttention(heads, rank, normalisation.value)
    if rank != 1:
        raise InvalidInput("rank", rank, "merged attention has none; leave it out")
    return MergedAttention(heads, normalisation.value)
