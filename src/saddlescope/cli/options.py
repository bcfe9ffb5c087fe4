"""The options that verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Fields = Annotated[list[str] | None, typer.Argument(metavar="--FIELD VALUE", hidden=True)]
