"""Fewer points for the same curve."""

from __future__ import annotations

import heapq

import numpy as np
from jaxtyping import Int

from saddlescope.checks import FloatArray

# Shares of the panel's width and height: a tenth of a pixel of a chart 1000 pixels wide.
_FINE_ENOUGH = 1e-4


def thin_curve(x: FloatArray, y: FloatArray, at_most: int) -> Int[np.ndarray, " kept"]:
    """Which points of a curve to keep (Ramer, Douglas and Peucker; the farthest point first).

    x and y are in shares of the panel. A point that is not finite is a gap, and one of each gap is
    kept. Corners are kept; points on a straight line between two others are dropped.

    >>> thin_curve(np.arange(6.), np.array([0, 0, 0, 1, 1, 1.]), 10).tolist()
    [0, 2, 3, 5]
    """
    finite = np.isfinite(x) & np.isfinite(y)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]]).astype(int)))
    first, last = edges[::2], edges[1::2] - 1
    chosen = set(first.tolist()) | set(last.tolist()) | set((last[:-1] + 1).tolist())
    spans: list[tuple[float, int, int, int]] = []
    fresh = list(zip(first.tolist(), last.tolist(), strict=True))
    while True:
        for begin, end in fresh:
            if end - begin < 2:
                continue
            along_x, along_y = x[end] - x[begin], y[end] - y[begin]
            away_x, away_y = x[begin + 1 : end] - x[begin], y[begin + 1 : end] - y[begin]
            length = np.hypot(along_x, along_y)
            if length > 0:
                share = np.clip((away_x * along_x + away_y * along_y) / length**2, 0, 1)
                away_x, away_y = away_x - share * along_x, away_y - share * along_y
            # How far each point lies from the straight line between the ends of its span.
            distance = np.hypot(away_x, away_y)
            farthest = int(np.argmax(distance))
            if distance[farthest] > _FINE_ENOUGH:
                heapq.heappush(
                    spans, (-float(distance[farthest]), begin, begin + 1 + farthest, end)
                )
        if not spans or len(chosen) >= at_most:
            return np.array(sorted(chosen), dtype=int)
        _, begin, middle, end = heapq.heappop(spans)
        chosen.add(middle)
        fresh = [(begin, middle), (middle, end)]


def thin_points(x: FloatArray, y: FloatArray, at_most: int) -> Int[np.ndarray, " kept"]:
    """Which of many separate points to keep: the outermost, and every n-th of the others."""
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(finite) <= at_most:
        return finite
    outer = {int(finite[pick(part[finite])]) for part in (x, y) for pick in (np.argmin, np.argmax)}
    even = finite[np.linspace(0, len(finite) - 1, at_most - len(outer)).astype(int)]
    return np.array(sorted(outer | set(even.tolist())), dtype=int)
