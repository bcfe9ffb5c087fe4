"""`saddlescope predict`: the theory alone."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from saddlescope.cli import options

EXAMPLE = """Predict a run from theory alone: levels, fixed points and drop times.

Example:

  saddlescope predict --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --seeds 3

The drop times follow from the initial weights of each seed, which are those that train draws.
"""


def predict(
    spectrum: options.Spectrum = ".4,.3,.2,.1",
    context_length: options.ContextLength = "31",
    task_covariance: options.TaskCovariance = None,
    query_covariance: options.QueryCovariance = None,
    label_noise: options.LabelNoise = 0.0,
    model: options.ModelOption = options.Model.separate,
    heads: options.Heads = 5,
    rank: options.Rank = 1,
    normalisation: options.NormalisationOption = options.Normalisation.context,
    init_scale: options.InitScale = 0.01,
    seeds: options.Seeds = 1,
    until: Annotated[float, typer.Option(help="Look for drops up to this time.")] = 100_000,
    as_json: options.Json = False,
) -> None:
    from saddlescope.comparison import predict as predict_all

    task = options.make_task(
        spectrum, context_length, task_covariance, query_covariance, label_noise
    )
    prediction = predict_all(
        task,
        options.make_model(model, heads, rank, normalisation),
        init_scale=init_scale,
        seeds=seeds,
        until=until,
    )
    if as_json:
        typer.echo(json.dumps(prediction.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(str(prediction))
