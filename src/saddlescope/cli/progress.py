"""A progress bar with the time left, on a terminal only and only for work that lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from saddlescope.running.progress import Progress

# Work that is done sooner shows no bar.
_WORTH_A_BAR = 1.0


class ShowProgress(Protocol):
    """Takes how far the work has come, and what it is at."""

    def __call__(self, progress: Progress, title: str = ...) -> None: ...


@contextmanager
def progress_bar(title: str) -> Iterator[ShowProgress | None]:
    """Yield what takes reports of progress; None where nobody is looking."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)

    def report(progress: Progress, title: str = title) -> None:
        if progress.seconds > _WORTH_A_BAR and not bar.live.is_started:
            bar.start()
        bar.update(task, completed=progress.share, description=title)

    try:
        yield report
    finally:
        bar.stop()
