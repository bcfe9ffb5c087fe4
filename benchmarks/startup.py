"""Startup: `import saddlescope` and `saddlescope --help`, without JAX."""

from __future__ import annotations

import importlib

from benchmarks.table import Findings, Row
from benchmarks.timing import fresh_process

_LOADED = "import sys; print('jax' in sys.modules)"
_HELP = """
import contextlib, io, sys
from saddlescope.cli import main
sys.argv = ["saddlescope", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""


def measure(quick: bool) -> Findings:
    """Whole processes, including the start of the interpreter."""
    times = 3 if quick else 10
    bare = fresh_process("pass", times)[0].best
    rows = [_row("import saddlescope", "import saddlescope", 0.3, bare, times)]
    what = "saddlescope --help"
    problem = _why_no_cli()
    if problem:
        rows.append(Row(what, None, bare, "python -c pass", seconds_below=0.5, note=problem))
    else:
        rows.append(_row(what, _HELP, 0.5, bare, times))
    return Findings("From nothing to ready (fresh processes)", rows=tuple(rows))


def _row(what: str, code: str, limit: float, bare: float, times: int) -> Row:
    timing, printed = fresh_process(f"{code}\n{_LOADED}", times)
    jax_free = printed.strip().endswith("False")
    return Row(
        what=what,
        ours=timing.best,
        baseline=bare,
        against="python -c pass",
        seconds_below=limit,
        note="JAX is not loaded" if jax_free else "JAX IS LOADED",
        holds=jax_free,
    )


def _why_no_cli() -> str:
    """Why `saddlescope --help` cannot be measured, empty where it can."""
    try:
        command = importlib.import_module("saddlescope.cli")
    except ImportError as error:
        return f"no command line to call: {error}"
    return "" if hasattr(command, "main") else "saddlescope.cli has no main"
