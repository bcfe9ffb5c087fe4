"""A learned head that rotates: the path of a task of two modes whose orders disagree (T17)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.charts import Baseline, PanelBuilder
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.figures.kit.panels import LOSS_LABEL, TIME_LABEL, colour, levels
from saddlescope.figures.zhang.staircase import learned_share
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import fixed_points, modes, plateau_losses
from saddlescope.trajectory import Trajectory

ROTATING = Setting(
    SeparateAttention(heads=4),
    InContextRegression([1.0, 0.3], 31, task_covariance=[0.5, 0.9], query_covariance=[1.0, 1.0]),
    GradientFlow(until=8000.0),
    RandomStart(0.003),
)
"""Runs whose first mode to escape zero is not the one that is stable."""

# A fixed point is visited within this distance, as a share of the optimum's length.
_VISITED = 0.05


def rotation_numbers(run: Trajectory) -> xr.Dataset:
    """The fixed points that each seed visits in turn, and the head that learns first."""
    task = run.setting.task
    points, basis = fixed_points(task), modes(task).basis
    try:
        plateau_losses(task)
        refused = 0
    except TheoryDoesNotApply:
        refused = 1
    maps = run.dataset["effective_map"].to_numpy()
    targets = np.array([point.effective_map for point in points])
    distance = np.linalg.norm(maps[:, :, None] - targets, axis=(3, 4))
    distance /= np.linalg.norm(targets[-1])
    seeds, stops = len(maps), len(points)
    visited = np.full((seeds, stops), -1.0)
    loss, when, aligned = (np.full((seeds, size), np.nan) for size in (stops, stops, 2))
    keys = run.dataset["k"].to_numpy()[:, :, :, 0] @ basis
    followed = np.empty((seeds, len(run.time), 2))
    for seed in range(seeds):
        path = _visits(distance[seed])
        # A seed that goes elsewhere matches no path.
        visited[seed, : len(path)] = path if len(path) <= stops else np.full(stops, np.nan)
        nearest = distance[seed].argmin(axis=0)
        loss[seed], when[seed] = run.loss[seed, nearest], run.time[nearest]
        head = int(np.abs(run.dataset["v"].to_numpy()[seed, nearest[1]]).argmax())
        cosines = np.abs(keys[seed, :, head]) / np.linalg.norm(
            keys[seed, :, head], axis=1, keepdims=True
        )
        followed[seed] = cosines[:, :2]
        aligned[seed] = cosines[nearest[1], 0], cosines[nearest[2], 1]
    share = learned_share(run, modes(task).amplitude, basis)
    return xr.Dataset(
        {
            "rotating_loss": (("rotating_seed", "rotating_time"), run.loss),
            "rotating_share": (("rotating_seed", "rotating_time", "mode"), share.to_numpy()),
            "key_cosine": (("rotating_seed", "rotating_time", "mode"), followed),
            "point_loss": ("stop", points.losses),
            "visited": (("rotating_seed", "stop"), visited),
            "visited_loss": (("rotating_seed", "stop"), loss),
            "visited_time": (("rotating_seed", "stop"), when),
            "point_distance": (("rotating_seed", "stop"), distance.min(axis=1)),
            "key_alignment": (("rotating_seed", "mode"), aligned),
            "path_refused": refused,
        },
        coords={"rotating_time": run.time, "mode": [0, 1]},
    )


def _visits(distance: FloatArray) -> list[int]:
    """The fixed points that a path `[T, points]` comes close to, one after another."""
    near = np.where(distance.min(axis=1) < _VISITED, distance.argmin(axis=1), -1)
    near = near[near >= 0]
    return [int(point) for point in near[np.diff(near, prepend=-1) != 0]]


def draw_rotation(loss_axes: PanelBuilder, turn_axes: PanelBuilder, data: xr.Dataset) -> None:
    one = data.isel(rotating_seed=int(data["point_distance"].to_numpy()[:, 1].argmin()))
    begin, end = float(one["visited_time"][1]), float(one["visited_time"][2])
    last = float(one["rotating_time"][-1])
    span = begin - 1.5 * (end - begin), min(end + 3 * (end - begin), last)
    loss_axes.plot(one["rotating_time"], one["rotating_loss"], color=colour(0), label="training")
    levels(loss_axes, one["point_loss"], "fixed points (T17)")
    # The levels of e1 and e2 may be close together.
    names: dict[str, Baseline] = {
        r"$\varnothing$": "center",
        "$e_1$": "bottom",
        "$e_2$": "top",
        "$e_1, e_2$": "center",
    }
    for value, (name, place) in zip(one["point_loss"], names.items(), strict=True):
        spot = (1.01, float(value))
        loss_axes.text(*spot, name, x_in="panel", va=place)
    loss_axes.set(ylabel=LOSS_LABEL, ylim=(0, None))
    for mode in range(2):
        tint = colour(1 + mode)
        share, cosine = one["rotating_share"][:, mode], one["key_cosine"][:, mode]
        time = one["rotating_time"]
        turn_axes.plot(time, share, color=tint, label=f"share of $e_{mode + 1}$")
        label = f"|cos| of key, $e_{mode + 1}$"
        turn_axes.plot(time, cosine, color=tint, linestyle=":", linewidth=2, label=label)
    turn_axes.set(ylabel="share learned, alignment", ylim=(-0.02, 1.15))
    for panel in (loss_axes, turn_axes):
        panel.set(xlim=span, xlabel=TIME_LABEL)
        panel.xaxis.most_ticks = 5
        panel.legend(2)
