"""The command line: one module a verb; parse, call, print."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from saddlescope.errors import InvalidInput, SaddlescopeError

app = typer.Typer(
    name="saddlescope",
    help="How attention learns to learn in context: trained exactly, predicted by theory.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    from saddlescope.cli import predict, train

    _keep_compiled_programs()
    if not app.registered_commands:
        app.command("predict", help=predict.EXAMPLE)(predict.predict)
        app.command("train", help=train.EXAMPLE)(train.train)
        app.callback()(lambda: None)
    command = typer.main.get_command(app)
    sys.exit(_invoke(command, arguments))


def _invoke(command: object, arguments: list[str] | None) -> int:
    import click

    try:
        code = command.main(args=arguments, prog_name="saddlescope", standalone_mode=False)  # type: ignore[attr-defined]
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as help_text:
        typer.echo(help_text.format_message())
        return 0
    except click.ClickException as wrong:
        return _complain(wrong.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", 1)
    except InvalidInput as wrong:
        return _complain(str(wrong), 2)
    except SaddlescopeError as failed:
        return _complain(str(failed), 1)


def _complain(message: str, code: int) -> int:
    typer.echo(f"saddlescope: {' '.join(message.split())}", err=True)
    return code


def _keep_compiled_programs() -> None:
    """Let JAX keep what it compiles between commands: a cold start falls by a third.

    A diffrax program can be kept only with EQX_ON_ERROR=nan; a library must not set that for its
    users, a process of our own may.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "saddlescope" / "jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("EQX_ON_ERROR", "nan")
