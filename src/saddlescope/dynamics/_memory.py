"""Refusing runs that would not fit into memory, before anything is computed."""

from __future__ import annotations

import math

from saddlescope.attention.starts import check_weights_fit
from saddlescope.dynamics._derived import derived_shapes
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.running.memory import check_memory
from saddlescope.setting import Setting

# Records are in the compiled loop, copied between segments, and once more in the result.
_RECORD_COPIES, _GRID_COPIES, _BATCH_COPIES = 3, 4, 3


def check_run_fits(setting: Setting, layout: Layout, seeds: int) -> None:
    """Raise if so many seeds at once would not fit into memory."""
    model, asked = setting.model, setting.record.most_points
    points = asked
    if setting.method.counts_steps:
        points = min(points, int(setting.method.end) + 1)
    sizes = {"seeds": seeds, "record.points": points, "spectrum": layout.dimension}
    sizes |= {name: value for name, value in vars(model).items() if type(value) is int}
    cure = "take fewer seeds, fewer points, no weights, or a smaller model"
    # The grid has as many points as were asked for before it is rounded to steps.
    check_memory(_GRID_COPIES * asked, {"record.points": asked}, "take fewer points")
    # Weights first: the shapes of derived arrays are known only where weights have one.
    check_weights_fit(model, setting.task, seeds)
    check_memory(_RECORD_COPIES * seeds * points * numbers_kept(setting, layout), sizes, cure)
    batch = getattr(setting.method, "batch_size", None)
    if batch is not None:
        group = group_size(seeds, layout.size, layout.dimension)
        setting.task.check_prompts(batch, "batch_size", _BATCH_COPIES * group)


def numbers_kept(setting: Setting, layout: Layout) -> int:
    """How many numbers are kept of each seed at each record."""
    if setting.record.keep == "drops":
        return 3 * (layout.dimension + 1)
    if setting.record.keep == "quantiles":
        # Losses are held and sorted, too.
        return 4
    if not setting.record.weights:
        return 1
    derived = sum(math.prod(shape) for _, shape in derived_shapes(setting.model, layout.shapes))
    return 1 + layout.size + derived
