"""Where an axis ends: at the limits asked for, else a little beyond what is drawn."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from saddlescope.charts.layers import AbstractLayer, AxisName
from saddlescope.charts.sheet import Scale
from saddlescope.checks import FloatArray

_MARGIN = 0.05


def limits(layers: Iterable[AbstractLayer], axis: AxisName, scale: Scale) -> tuple[float, float]:
    """The ends of an axis that shows the layers whole, with a margin of a twentieth.

    >>> from saddlescope.charts.layers import Curve, Look
    >>> curve = Curve(Look("#000000"), x=np.array([1.0, 100.0]), y=np.array([0.0, 20.0]))
    >>> limits([curve], "y", "linear")
    (-1.0, 21.0)
    """
    shown = list(layers)
    values = _seen([layer.extent(axis) for layer in shown], scale)
    if not values.size:
        return (1.0, 10.0) if scale == "log" else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    borders = {float(value) for layer in shown for value in layer.borders(axis)}
    begin, end = (np.log10([low, high]) if scale == "log" else np.array([low, high])).tolist()
    margin = _MARGIN * (end - begin)
    if begin == end:
        margin = 1.0 if scale == "log" else _MARGIN * abs(begin) or 1.0
    begin -= 0.0 if low in borders else margin
    end += 0.0 if high in borders else margin
    return (10.0**begin, 10.0**end) if scale == "log" else (begin, end)


def _seen(parts: list[FloatArray], scale: Scale) -> FloatArray:
    values = np.concatenate([np.ravel(part) for part in parts] or [np.empty(0)])
    values = values[np.isfinite(values)]
    return values[values > 0] if scale == "log" else values
