"""`ProgressBar`: how far something long has come, with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, TypeVar

from saddlescope.running.observers import AbstractObserver, Result, Snapshot, State

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")

# Work that is done sooner shows no bar.
_WORTH_A_BAR = 1.0


def shown(items: Sequence[Item], title: str) -> Iterator[Item]:
    """Go through items, with a bar where that takes long."""
    with ProgressBar(title) as bar:
        for index, item in enumerate(items):
            bar.show(index / len(items))
            yield item


class ProgressBar(AbstractObserver):
    """A bar on the terminal, or in a notebook, once something has taken a second.

    Nothing is shown where standard error is no terminal, nor in a notebook without ipywidgets, by
    which a bar moves there. `show` moves it by hand, for work that is no training.

    `title` stands in front of the bar.

    >>> bar = ProgressBar("training")
    """

    _is_one_shown: ClassVar[bool] = False
    """A terminal has room for one; work within work shows none of its own."""

    def __init__(self, title: str = "training") -> None:
        self._title = title
        self._bar: Progress | None = None
        self._began = time.monotonic()

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self.show(snapshot.share, snapshot.job.headline(snapshot.state))

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:
        self.close()

    def show(self, share: float, title: str | None = None) -> None:
        """Move the bar to a share of the whole, from 0 to 1, and name what is in hand."""
        if self._bar is None:
            too_early = time.monotonic() - self._began < _WORTH_A_BAR
            if too_early or ProgressBar._is_one_shown or not _is_watched():
                return
            ProgressBar._is_one_shown = True
            self._bar = _rich_bar()
            self._bar.add_task(self._title, total=1.0)
            self._bar.start()
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=share, description=title or self._title)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            ProgressBar._is_one_shown = False


def _is_watched() -> bool:
    moves_in_notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    return sys.stderr.isatty() or moves_in_notebook


def _rich_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=Console(stderr=sys.stderr.isatty()),
        transient=True,
    )
