"""`saddlescope predict`: the theory alone."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from saddlescope.cli import options

EXAMPLE = """Predict a run from theory: levels, fixed points, drop times.

\b
Examples:
  saddlescope predict --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --seeds 3
  saddlescope predict --model merged --heads 8
  saddlescope predict --method descent --learning-rate 2 --steps 1000
  saddlescope predict --seeds 10000 --by quadrature --json
  saddlescope predict --setting run.toml

Prints the levels of the loss, the fixed points, the largest stable learning rate and the drop
times. The drop times follow from the initial weights of each seed, the same as train draws.
"""


def predict(
    words: options.Fields = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="race (T13) or quadrature (T18); race up to 1000 seeds by default.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.cli.flags import only_fields, read_setting
    from saddlescope.comparison import predict as predict_setting

    prediction = predict_setting(read_setting(only_fields(words), until=100_000.0), by=by)
    if as_json:
        typer.echo(json.dumps(prediction.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(str(prediction))
