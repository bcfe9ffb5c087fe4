"""`saddlescope lab`: serve the lab until interrupted."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from saddlescope.cli import options
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import as_number

EXAMPLE = """Open a page on which you change task and model by hand.

\b
Examples:
  saddlescope lab
  saddlescope lab --spectrum power:8:1 --heads 9 --rank 2 --seeds 4
  saddlescope lab --port 9000 --no-browser
  saddlescope lab --host 0.0.0.0 --token "$(openssl rand -hex 16)"

Without fields it opens at the staircase of separate attention. Ctrl-C ends it.

It needs the extra `lab`: pip install 'saddlescope[lab]'.
"""

# Seconds between checks whether to stop: a signal is answered by another thread.
_CHECK_EVERY = 0.1


def lab(
    words: options.Fields = None,
    port: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="The port; by default 8137, or any free one if that is taken."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="The address to listen on; any but loopback needs --token."
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="A secret that the page's address must hold: 8 characters or more."
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and open nothing.")
    ] = False,
) -> None:
    from saddlescope.cli.flags import only_fields, read_setting
    from saddlescope.lab.server import Lab
    from saddlescope.running.interruption import StopRequest, leave

    texts = only_fields(words)
    setting = read_setting(texts, until=20_000.0) if texts else None
    with StopRequest() as request:
        served = Lab(setting, host=host, port=_number(port), token=token)
        typer.echo(f"the lab is at {served.address}\nCtrl-C ends it")
        if not no_browser:
            served.open_browser()
        pause = threading.Event()
        while not request.requested:
            pause.wait(_CHECK_EVERY)
        served.close()
    # Programs that are being compiled in advance are not waited for.
    leave(request.signal or signal.SIGINT, "the lab is closed")


def _number(port: str | None) -> int | None:
    number = None if port is None else as_number(port)
    if isinstance(number, float) or (number is None and port is not None):
        raise InvalidInput("port", port, "must be a whole number from 0 to 65535")
    return number
