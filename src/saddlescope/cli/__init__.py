"""The command line: one module a verb; parse, call, print."""

from __future__ import annotations

import gc
import sys

# New objects between two searches for garbage. Imports, tracing and drawing make a million that
# stay; searching them at every 700 takes a sixteenth of the time of `saddlescope reproduce fig3`.
_GARBAGE_EVERY = 10_000


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and leave with its exit code."""
    from saddlescope.running import interruption

    if arguments is None:
        # Before anything is imported that takes long: Ctrl-C is answered from here on.
        interruption.guard("interrupted; run the same command again to resume from what is kept")
    gc.set_threshold(_GARBAGE_EVERY)
    from saddlescope.cli._app import run

    code = run(sys.argv[1:] if arguments is None else arguments)
    interruption.retire()
    sys.exit(code)
