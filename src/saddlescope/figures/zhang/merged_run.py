"""What the figures of merged attention share: a run beside its reduced flow, as numbers."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.attention import (
    ConvolutionalNetwork,
    GivenStart,
    MergedAttention,
    TwoLayerNetwork,
)
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.claim import Claim, at_most
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import STAIRCASE, initial_scale, staircase_numbers
from saddlescope.setting import Setting
from saddlescope.setting.fields import fields_of
from saddlescope.task import AbstractData
from saddlescope.theory import time_course
from saddlescope.trajectory import Trajectory

MERGED = STAIRCASE.replace(model=MergedAttention(heads=8), until=1e6, init_scale=1e-5, points=800)
"""The runs of Figures 1 and 6; none takes so long: they end where they have converged."""

BLOCKS = 1e-6
"""How far a flow with more weights may be from one without: the solver takes other steps; 3e-7."""

QUICK_MERGED = MERGED.replace(seeds=2, points=200)
"""The same in short."""


def with_merged_heads(setting: Setting, heads: int) -> Setting:
    """The setting with its model replaced by merged attention of this many heads."""
    shared = {name: getattr(setting.model, name) for name in fields_of(MergedAttention)}
    return setting.replace(model=MergedAttention(**{**shared, "heads": heads}))


def course_times(task: AbstractData, init_scale: float, points: int) -> FloatArray:
    """When to record merged attention from a small start: densely through its drop, then ever
    more sparsely until it has converged (T10)."""
    usual = time_course(task, init_scale).time
    return np.interp(np.linspace(0, len(usual) - 1, points), np.arange(len(usual)), usual)


def until_converged(setting: Setting) -> Setting:
    """The setting of merged attention from a small start, recorded until it has converged."""
    times = course_times(setting.task, initial_scale(setting), setting.record.points)
    times = times[times <= setting.method.end]
    return setting.replace(until=float(times[-1]), at=times)


def as_network(setting: Setting) -> Setting:
    """The same for the equivalent linear network (T4), from the same weights."""
    heads, merged = setting.model.heads, isinstance(setting.model, MergedAttention)
    network = TwoLayerNetwork(heads) if merged else ConvolutionalNetwork(heads)
    weights = setting.init.ensemble(setting.model, setting.task, np.array(setting.seeds))
    start = GivenStart(network.from_attention(weights), setting.seeds)
    return setting.replace(model=network, init=start)


def map_distance(run: Trajectory, other: Trajectory) -> FloatArray:
    """The largest difference of two runs' effective maps, over (seed, time)."""
    maps = [one.dataset["effective_map"].to_numpy() for one in (run, other)]
    return np.abs(maps[0] - maps[1]).max(axis=(2, 3))


def block_numbers(watch: Watch, run: Trajectory) -> xr.Dataset:
    """A run with all blocks, starting at zero those that are left out elsewhere (T5).

    Over seed: `block_size`, the largest entry that these blocks reach, and `block_distance`, the
    largest difference from the loss without them.
    """
    whole = watch.train("all-blocks", run.setting.replace(blocks="full"))
    names = [name for name in ("nu", "u", "kappa") if name in whole.dataset]
    blocks = [np.abs(whole.dataset[name].to_numpy()) for name in names]
    numbers = {
        "block_size": np.max([one.reshape(len(one), -1).max(axis=1) for one in blocks], axis=0),
        "block_distance": np.abs(whole.loss - run.loss).max(axis=1),
    }
    return xr.Dataset({name: ("seed", values) for name, values in numbers.items()})


def block_claim(data: xr.Dataset, source: str) -> Claim:
    """Blocks that start at zero stay there, and the loss is as without them."""
    return at_most(
        "training all blocks on the population leaves those at zero that start there (T5): "
        "their largest entry, and the change in loss",
        [data["block_size"], data["block_distance"]],
        BLOCKS,
    ).stated_in(source)


def merged_numbers(run: Trajectory) -> xr.Dataset:
    """Loss, levels, drops and conserved quantities of a run, and its whole course by T10.

    Over (seed, time), level and drop as in `staircase_numbers`, and direction.
    """
    task, seeds, axes = run.setting.task, run.setting.seeds, ("seed", "time")
    courses = [time_course(task, weights=run.weights(seed, 0), times=run.time) for seed in seeds]
    return staircase_numbers(run).assign(
        predicted_loss=(axes, np.array([course.loss for course in courses])),
        predicted_diagonal=((*axes, "direction"), np.array([one.diagonal for one in courses])),
    )
