"""A progress bar with the time left, on a terminal only and only for work that lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Work that is done sooner shows no bar.
_WORTH_A_BAR = 1.0


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[..., None] | None]:
    """Yield what takes reports of progress; None where nobody is looking."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)

    def report(progress: Any, title: str = title) -> None:
        if progress.seconds > _WORTH_A_BAR and not bar.live.is_started:
            bar.start()
        bar.update(task, completed=progress.share, description=title)

    try:
        yield report
    finally:
        bar.stop()
