"""Single heads as particles: the potential of T18, and the course of a trained head in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.integrate import cumulative_simpson
from scipy.optimize import brentq, minimize_scalar

from saddlescope.attention import Weights
from saddlescope.checks import FloatArray
from saddlescope.theory import Modes, modes, runaway_times
from saddlescope.theory.staircase.dormant import first_drop_delay
from saddlescope.trajectory import Trajectory

NEAR = (-8.0, 12.0)
"""The stretch of θ about the start that is shown."""

# A head is dormant while its value is below this share of its final value.
_DORMANT = 0.05
# How far ahead of a head to search for its turning point, in units of 1/c_1.
_AHEAD = 12.0


@dataclass(frozen=True, eq=False)
class Potential:
    r"""$F(\theta)$ of one head of rank one, whose value is $v = \pm\sqrt F$ (T18)."""

    value: float
    """v at θ = 0."""
    rising: FloatArray
    """A²/4 of every mode."""
    falling: FloatArray
    """B²/4."""
    drive: FloatArray

    @classmethod
    def of(cls, start: Weights, law: Modes) -> Potential:
        """That of the weights of a model of one head."""
        key, query = (start[name][0, 0] @ law.basis for name in ("k", "q"))
        return cls(float(start["v"][0]), (key + query) ** 2 / 4, (key - query) ** 2 / 4, law.drive)

    def __call__(self, theta: FloatArray | float) -> FloatArray:
        """F at each θ."""
        power = 2 * np.multiply.outer(theta, self.drive)
        grown: FloatArray = np.expm1(power) @ self.rising + np.expm1(-power) @ self.falling
        return self.value**2 + grown

    @property
    def turning_point(self) -> float | None:
        """The first root of F on the way of the head; None where it need not turn."""
        ahead = np.sign(self.value) * _AHEAD / float(self.drive.max())
        between = (min(ahead, 0.0), max(ahead, 0.0))
        lowest = minimize_scalar(lambda at: float(self(at)), bounds=between, method="bounded")
        if lowest.fun >= 0:
            return None
        return float(brentq(lambda at: float(self(at)), 0.0, lowest.x))


def head_numbers(run: Trajectory, scale: float) -> xr.Dataset:
    """The courses of single heads, a seed each, beside their potentials.

    θ is the integral of v from the start, counted in the direction of the first step; v and F are
    in units of the scale and of its square. All but times and turning points are NaN once the head
    is no longer dormant.
    """
    setting, law = run.setting, modes(run.setting.task)
    model, task = setting.model, setting.task
    rest = float(np.cbrt(law.amplitude[law.order[0]]))
    value = run.dataset["v"].to_numpy()[:, :, 0]
    theta = cumulative_simpson(value, x=run.time, axis=1, initial=0.0)
    sign = np.sign(value[:, :1])
    awake = np.maximum.accumulate(np.abs(value), axis=1) > _DORMANT * rest
    potential, turning = np.empty(value.shape), np.full(len(value), np.nan)
    runaway, near = np.empty(len(value)), np.linspace(*NEAR, 201)
    near_potential = np.empty((len(value), len(near)))
    for place, seed in enumerate(setting.seeds):
        start = setting.init.weights(model, task, seed)
        own = Potential.of(start, law)
        potential[place] = own(np.where(awake[place], 0.0, theta[place]))
        near_potential[place] = own(sign[place] * near)
        if own.turning_point is not None:
            turning[place] = abs(own.turning_point)
        runaway[place] = float(runaway_times(model, task, start)[0])
    furthest = np.where(awake, -np.inf, sign * theta)
    turns = (np.where(awake, 0.0, sign * value) < 0).any(axis=1)
    numbers = {
        "theta": sign * theta,
        "value": sign * value / scale,
        "potential": potential / scale**2,
    }
    return xr.Dataset(
        {
            **{
                name: (("head", "record"), np.where(awake, np.nan, array))
                for name, array in numbers.items()
            },
            "near_potential": (("head", "near"), near_potential / scale**2),
            "turning_point": ("head", turning),
            "measured_turning_point": ("head", np.where(turns, furthest.max(axis=1), np.nan)),
            "runaway": ("head", runaway),
            "measured_runaway": (
                "head",
                run.summary()["drop_time"].to_numpy()[:, 0] + first_drop_delay(model, task),
            ),
        },
        coords={"time": ("record", run.time), "near": near},
    )
