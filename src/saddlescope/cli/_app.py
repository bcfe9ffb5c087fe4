"""The application: its verbs, its exit codes, and what it says when something is wrong."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from saddlescope.errors import Interrupted, InvalidInput, SaddlescopeError
from saddlescope.running.programs import ignore_torn_programs

app = typer.Typer(
    name="saddlescope",
    invoke_without_command=True,
    help="How attention learns to learn in context: trained exactly, predicted by theory.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# typer carries its own copy of click, whose base of usage errors it does not export.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")


# What the system says where standard output can take no more.
_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run(words: list[str]) -> int:
    """The exit code of a command; bad input ends with one line and 2."""
    try:
        return _run(words)
    except OSError as problem:
        if problem.errno not in _UNWRITABLE or problem.filename is not None:
            raise
        # What is left in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if problem.errno == errno.EPIPE:
            return 1
        return _complain(f"the output cannot be written: {problem.strerror}", 1)


def _run(words: list[str]) -> int:
    from saddlescope.cli import (
        lab,
        measure,
        observe,
        predict,
        reproduce,
        sweep,
        train,
        transformer,
    )

    _keep_compiled_programs()
    if not app.registered_commands:
        # Fields are flags too; which ones exist depends on the kinds and figures that are named.
        loose = {"ignore_unknown_options": True}
        app.command("predict", help=predict.EXAMPLE, context_settings=loose)(predict.predict)
        app.command("train", help=train.EXAMPLE, context_settings=loose)(train.train)
        command = app.command("reproduce", help=reproduce.EXAMPLE, context_settings=loose)
        command(reproduce.reproduce)
        small = typer.Typer(help=transformer.EXAMPLE, no_args_is_help=True, rich_markup_mode=None)
        for name, verb, example in (
            ("induction", transformer.induction, transformer.INDUCTION),
            ("grokking", transformer.grokking, transformer.GROKKING),
        ):
            small.command(name, help=example, context_settings=loose)(verb)
        app.add_typer(small, name="transformer")
        app.command("measure", help=measure.EXAMPLE)(measure.measure)
        app.command("observe", help=observe.EXAMPLE)(observe.observe)
        many = typer.Typer(
            help=sweep.EXAMPLE, cls=sweep.PlanOrVerb, no_args_is_help=True, rich_markup_mode=None
        )
        many.command("run", help=sweep.RUN)(sweep.run)
        many.command("plot", help=sweep.PLOT)(sweep.plot)
        many.command("page", help=sweep.PAGE)(sweep.page)
        app.add_typer(many, name="sweep", short_help="Run many settings, here or on a cluster.")
        app.command("lab", help=lab.EXAMPLE, context_settings=loose)(lab.lab)
        app.callback()(_options)
    code = _invoke(typer.main.get_command(app), words or ["--help"])
    if code == 0 and "--help" in words:
        code = _show_fields(words)
    return code


def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from saddlescope import __version__

        typer.echo(f"saddlescope {__version__}")
        raise typer.Exit


def _show_fields(words: list[str]) -> int:
    """Print the rest of a help text: the fields of the kinds that the words choose."""
    from saddlescope.cli.flags import setting_help
    from saddlescope.cli.transformer import experiment_help

    try:
        if words[0] in ("lab", "predict", "train"):
            typer.echo(setting_help(words[1:]))
        elif words[0] == "transformer" and words[1] != "--help":
            typer.echo(experiment_help(words[1]))
    except InvalidInput as wrong:
        return _complain(str(wrong), 2)
    return 0


def _invoke(command: Any, arguments: list[str]) -> int:
    try:
        _refuse_empty(arguments)
        code = command.main(args=arguments, prog_name="saddlescope", standalone_mode=False)
        # typer turns Ctrl-C into 130 without a word.
        return _complain("interrupted", 130) if code == 130 else code or 0
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except Interrupted as stopped:
        message = "interrupted; run the same command again to resume"
        return _complain(message, 128 + (stopped.signal or signal.SIGINT))
    except InvalidInput as wrong:
        return _complain(str(wrong), 2)
    except SaddlescopeError as failed:
        return _complain(str(failed), 1)
    except MemoryError:
        return _complain("the setting does not fit in memory", 2)
    except _USAGE_ERROR as wrong:
        if type(wrong).__name__ == "NoArgsIsHelpError":
            typer.echo(wrong.format_message())
            return 0
        return _complain(_explain(wrong, arguments), 2)


def _refuse_empty(words: list[str]) -> None:
    """Refuse an empty word, as an unset variable leaves it: as a path it would be this folder."""
    for before, word in zip(["", *words], words, strict=False):
        flag, equals, value = word.partition("=")
        if word and not (flag.startswith("--") and equals and not value):
            continue
        name = flag or (before if before.startswith("--") else "words")
        raise InvalidInput(name.removeprefix("--"), "", "must not be empty")


def _explain(wrong: Any, arguments: list[str]) -> str:
    """What is wrong with the command line, and what is allowed."""
    message = str(wrong.format_message())
    verbs = getattr(wrong.cmd, "commands", None)
    if verbs and message.startswith("No such command"):
        return f"{message} There are {', '.join(verbs)}."
    if type(wrong).__name__ == "NoSuchOption":
        flags = [flag for one in wrong.cmd.params for flag in one.opts if flag.startswith("--")]
        return f"{wrong.message}; there are {', '.join(flags)}"
    name = getattr(wrong, "option_name", "")
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag == name and type(wrong).__name__ == "BadOptionUsage":
            allowed = "takes no value" if equals else "needs a value"
            return str(InvalidInput(name.removeprefix("--"), value, allowed))
    return message


def _complain(message: str, code: int) -> int:
    typer.echo(f"saddlescope: {' '.join(message.split())}", err=True)
    return code


def _keep_compiled_programs() -> None:
    """Let JAX keep what it compiles between commands: a cold start falls by a third.

    A diffrax program can be kept only with EQX_ON_ERROR=nan; a library must not set that for its
    users, a process of our own may.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    # In a container a user may have no home.
    if cache.is_absolute():
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "saddlescope" / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    ignore_torn_programs()
