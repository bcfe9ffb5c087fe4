"""Progress of a whole that consists of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TypeVar

from saddlescope.running.observers import (
    AbstractJob,
    AbstractObserver,
    Audience,
    Result,
    Saved,
    Snapshot,
    State,
)

Item = TypeVar("Item")


def borders(weights: Sequence[float]) -> list[tuple[float, float]]:
    """Where each part begins and ends in the whole, given how long each takes.

    >>> borders([1, 3])
    [(0.0, 0.25), (0.25, 1.0)]
    """
    ends, whole = accumulate(weights, initial=0.0), sum(weights) or 1.0
    return list(pairwise(end / whole for end in ends))


class Parts(AbstractObserver):
    """Shows the progress of a whole while its parts run; parts may have parts.

    `show` is called with the fraction of the whole that is done, from 0 to 1.

    >>> parts = Parts(print)
    >>> for part in parts.each("ab"):
    ...     parts.done(0.5)
    0.0
    0.25
    0.5
    0.75
    1.0
    """

    def __init__(self, show: Callable[[float], object] | None = None) -> None:
        self._show = show
        self._begin, self._end = 0.0, 1.0

    def each(self, items: Iterable[Item], weights: Sequence[float] | None = None) -> Iterator[Item]:
        """Iterate over the parts; without weights they take equally long."""
        begin, end, listed = self._begin, self._end, list(items)
        parts = borders([1.0] * len(listed) if weights is None else weights)
        for item, (first, last) in zip(listed, parts, strict=True):
            self._begin, self._end = (begin + (end - begin) * at for at in (first, last))
            self.done(0.0)
            yield item
        self._begin, self._end = begin, end
        self.done(1.0)

    def done(self, share: float) -> None:
        """Show that this fraction of the current part is done."""
        if self._show is not None:
            self._show(self._begin + (self._end - self._begin) * share)

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self.done(snapshot.share)


class Within(AbstractObserver):
    """Shows a job to observers as the part of a whole from `begin` to `end`."""

    def __init__(self, observers: object, begin: float, end: float) -> None:
        self._audience = Audience(observers)
        self._within = begin, end
        self.interval = self._audience.interval

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        return self._audience.begin(job)

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self._audience.observe(replace(snapshot, within=self._within))

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:
        self._audience.end(snapshot)
