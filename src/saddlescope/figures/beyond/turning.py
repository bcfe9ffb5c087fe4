"""The first head that learns, and how it turns during the first drop (T18, T19)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.setting import Setting
from saddlescope.theory import first_drop_times, fixed_points
from saddlescope.theory.parametrisation import population_law
from saddlescope.theory.staircase.dormant import first_drop_delay
from saddlescope.trajectory import Trajectory

# The time window around a drop, in units of K.
_BEFORE, _AFTER = -30.0, 60.0
# A head grows by itself where it has come past its start and is far from where it rests: at this
# share of the length that it rests at.
_GROWING = 0.1


def around_first_drops(setting: Setting) -> Setting:
    """The setting recorded around the first drop of every seed, as T18 predicts it."""
    times = _times(setting).reshape(-1)
    return setting.replace(at=np.sort(times), until=float(times.max()))


def turning_numbers(run: Trajectory) -> xr.Dataset:
    """Angles of the first winner's key and query to the drive's vectors and to the fixed point's.

    Of a run recorded `around_first_drops`, over (seed, side, moment, line): the side is key or
    query, the moment the time from the predicted first drop on in units of K, the line that of the
    drive or of the fixed point.
    """
    setting = run.setting
    keys, _, queries = np.linalg.svd(population_law(setting.task).moments().drive)
    rest = fixed_points(setting.task).at([0])
    # [side, line, D]
    lines = np.array([[keys[:, 0], rest.key_directions[0]], [queries[0], rest.query_directions[0]]])
    # [seed, side, time, head, D]
    pairs = np.stack([run.dataset[name].to_numpy()[:, :, :, 0] for name in "kq"], axis=1)
    sizes, records = np.abs(run.dataset["v"].to_numpy()), _times(setting)
    paths, growing = [], []
    for pair, size, times in zip(pairs, sizes, records, strict=True):
        own = np.searchsorted(run.time, times * (1 - 1e-12))
        head = int(size[own[-1]].argmax())
        path = pair[:, own, head]
        small = size[own, head] < _GROWING * size[own[-1], head]
        paths.append(path)
        growing.append(path[:, int(np.flatnonzero(small)[-1])])
    along, on_way = np.array(paths), np.array(growing)
    settled = along[:, :, -1]
    return xr.Dataset(
        {
            "angle": (
                ("seed", "side", "moment", "line"),
                _angle(along[:, :, :, None], lines[:, None]),
            ),
            "angle_growing": (("seed", "side"), _angle(on_way, lines[:, 0])),
            "angle_settled": (("seed", "side"), _angle(settled, lines[:, 1])),
            "angle_turned": (("seed", "side"), _angle(on_way, settled)),
            "turn": ("side", _angle(lines[:, 0], lines[:, 1])),
        },
        coords={"moment": _moments(setting)},
    )


def _moments(setting: Setting) -> FloatArray:
    # With time zero they are as many as the setting records: one program serves both runs.
    return np.linspace(_BEFORE, _AFTER, (setting.record.points - 1) // len(setting.seeds))


def _times(setting: Setting) -> FloatArray:
    """When each seed is looked at, [seed, moment]."""
    model, task = setting.model, setting.task
    starts = setting.init.ensemble(model, task, np.array(setting.seeds))
    first = first_drop_times(model, task, starts)
    return first[:, None] + first_drop_delay(model, task) * _moments(setting)


def _angle(vectors: FloatArray, others: FloatArray) -> FloatArray:
    """The angles between the lines along vectors `[..., D]`, in degrees."""
    lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(others, axis=-1)
    cosines = np.abs((vectors * others).sum(-1)) / lengths
    return np.degrees(np.arccos(np.minimum(cosines, 1.0)))


def draw_turning(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The angles of all seeds, from the predicted first drop on."""
    axes.axvline(0, color=panels.THEORY_COLOUR, linewidth=0.8, linestyle=":", zorder=0)
    for side, name in enumerate(("key", "query")):
        for line, (where, style) in enumerate((("$C$", (0, (2, 1.5))), ("$W_S$", "-"))):
            for seed in range(data.sizes["seed"]):
                axes.plot(
                    data["moment"],
                    data["angle"][seed, side, :, line],
                    color=panels.colour(side),
                    linestyle=style,
                    linewidth=1.0,
                    label=None if seed else f"{name} to {where}",
                )
    highest = 1.15 * float(data["turn"].max())
    axes.set(xlim=(-12, 18), ylim=(-2, highest), ylabel="angle to singular vectors, degrees")
    axes.set(xlabel="time from the predicted first drop on, in units of $K$")
    axes.legend(4)
