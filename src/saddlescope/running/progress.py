"""How far a run has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a run has come, told at every segment border."""

    share: float
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the pace so far, None while there is none."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None


Report = Callable[[Progress], object]
