"""The sharpness of the loss along descents, and whether they rest, as numbers (T21)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart, SeparateAttention
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientDescent, Record
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import plateau_record
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import (
    StaircaseSharpness,
    fixed_points,
    hessian_spectrum,
    minimal_norm_weights,
    modes,
    plateau_losses,
    sharpness,
    staircase_sharpness,
)
from saddlescope.trajectory import Trajectory

# How far from a fixed point a descent starts, and the steps over which its growth is measured.
_BESIDE, _WINDOW = 1e-5, (100, 300)
# One in this many ratios of eigenvalues is checked against Lanczos iteration.
_MARKED = 4
# The draw of the directions beside the fixed points.
_DRAW = 1


def descend(base: Setting, rate: float, points: int) -> Setting:
    """The staircase of a setting by gradient descent, recorded at logarithmic steps."""
    unit = base.model.time_unit(base.model.gain(base.task.fixed_length))
    steps = round(base.method.end / (2 * rate * unit))
    at = np.unique(np.geomspace(steps / 300, steps, points).round().astype(int))
    return base.replace(method=GradientDescent(rate, steps), record=Record(at=tuple(at.tolist())))


def sharpness_along(run: Trajectory, seed: int) -> FloatArray:
    """The measured sharpness at every record of the seed at an index, by Lanczos iteration."""
    return np.array([_sharpness(run, seed, record) for record in range(len(run.time))])


def end_numbers(run: Trajectory) -> xr.Dataset:
    """Where the seeds of a descent end: loss, sharpness, and the head that holds most of e1."""
    law = modes(run.setting.task)
    first = law.basis[:, law.order[0]]
    value, key, query = (run.dataset[name].to_numpy()[:, -1] for name in ("v", "k", "q"))
    parts = value * (key[:, :, 0] @ first) * (query[:, :, 0] @ first)
    largest = parts.max(axis=1) / law.amplitude[law.order[0]]
    found = [_sharpness(run, seed, len(run.time) - 1) for seed in range(len(run.loss))]
    return xr.Dataset(
        {
            "end_loss": ("seed", run.loss[:, -1]),
            "end_sharpness": ("seed", found),
            "largest_share": ("seed", largest),
        }
    )


def plateau_sharpness(run: Trajectory, theory: StaircaseSharpness) -> xr.Dataset:
    """The sharpness in the middle of each seed's plateaus, beside that of T21; NaN: none came."""
    drops = drop_times(run.loss, plateau_losses(run.setting.task), run.time)
    measured = np.full((len(drops), drops.shape[1]), np.nan)
    for seed, drop in np.argwhere(np.isfinite(drops)).tolist():
        measured[seed, drop] = _sharpness(
            run, seed, plateau_record(run.time, drops[seed], drop + 1)
        )
    return xr.Dataset(
        {
            "plateau_sharpness": (("seed", "drop"), measured),
            "theory_sharpness": ("drop", theory.sharpness[1:]),
            "drop_time": (("seed", "drop"), drops),
        }
    )


def beside_fixed_points(
    watch: Watch, base: Setting, shares: Sequence[float], steps: int
) -> xr.Dataset:
    """Descents from beside each in-order fixed point, at shares of its own stable rate.

    `excess` is the distance of the loss from the fixed point's over (share, plateau, step), and
    `growth` by how much the logarithm of it grows in a step.
    """
    theory = staircase_sharpness(base.model, base.task)
    plateaus = range(1, len(theory.subsets))
    excess = np.empty((len(shares), len(plateaus), steps + 1))
    for (row, share), plateau in product(enumerate(shares), plateaus):
        subset = theory.subsets[plateau]
        rate = float(share * theory.stable_learning_rates[plateau])
        setting = base.replace(
            method=GradientDescent(rate, steps),
            record=Record(points=steps + 1),
            seeds=1,
            init=GivenStart(_beside(base, subset), (0,)),
        )
        run = watch.train(f"beside-{share:g}-{plateau}", setting)
        excess[row, plateau - 1] = np.abs(run.loss[0] - fixed_points(base.task).at(subset).loss)
    first, last = _WINDOW
    growth = np.log(excess[..., last] / excess[..., first]) / (last - first)
    return xr.Dataset(
        {
            "excess": (("share", "plateau", "step"), excess),
            "growth": (("share", "plateau"), growth),
        },
        coords={"share": list(shares), "plateau": list(plateaus)},
    )


def rotation_bounds(lengths: Sequence[int], ratios: FloatArray) -> xr.Dataset:
    """The sharpness of the minimum of two eigenvalues, over that of the first head alone.

    Over (length, ratio) of their eigenvalues, in closed form; `lanczos_bound` is found by iteration
    at some of the ratios, `marked_ratio`.
    """
    model, marked = SeparateAttention(heads=2), ratios[::_MARKED]
    bound = np.empty((len(lengths), len(ratios)))
    lanczos = np.empty((len(lengths), len(marked)))
    for row, place in np.ndindex(bound.shape):
        task = InContextRegression([1.0, 1 / ratios[place]], lengths[row])
        spectrum = hessian_spectrum(model, task, (0, 1))
        first = float(spectrum.along.max())
        bound[row, place] = spectrum.largest / first
        if place % _MARKED == 0:
            weights = minimal_norm_weights(model, task, (0, 1))
            lanczos[row, place // _MARKED] = sharpness(model, task, weights) / first
    return xr.Dataset(
        {
            "rotation_bound": (("length", "ratio"), bound),
            "lanczos_bound": (("length", "marked_ratio"), lanczos),
        },
        coords={"length": list(lengths), "ratio": ratios, "marked_ratio": marked},
    )


def _sharpness(run: Trajectory, seed: int, record: int) -> float:
    setting = run.setting
    weights = {name: run.dataset[name].to_numpy()[seed, record] for name in setting.model.axes}
    return sharpness(setting.model, setting.task, weights)


def _beside(base: Setting, subset: tuple[int, ...]) -> dict[str, FloatArray]:
    """Weights beside the minimal-norm ones of the heads that are in use; the others stay zero."""
    generator, beside = np.random.default_rng(_DRAW), {}
    for name, array in minimal_norm_weights(base.model, base.task, subset).items():
        used = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True) > 0
        moved = array + _BESIDE * used * generator.standard_normal(array.shape)
        beside[name] = moved[None]
    return beside
