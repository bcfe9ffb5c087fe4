"""Plausible mistakes in a figure's data: each must change the verdict of a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from saddlescope.figures.kit.claim import Claim


@dataclass(frozen=True)
class Mistake:
    """A plausible error: its name, and the function that makes it in a figure's data.

    >>> data = xr.Dataset({"drop_time": ("drop", [10.0, 40.0])})
    >>> scaled("steps in place of flow time", 25.0, "drop_time").make(data)["drop_time"].values
    array([ 250., 1000.])
    """

    name: str
    make: Callable[[xr.Dataset], xr.Dataset]

    def caught_by(
        self, judge: Callable[[xr.Dataset], tuple[Claim, ...]], data: xr.Dataset
    ) -> tuple[str, ...]:
        """The names of the claims that have an unexpected verdict with this mistake."""
        return tuple(claim.name for claim in judge(self.make(data)) if not claim.as_expected)


def scaled(name: str, factor: ArrayLike, *variables: str) -> Mistake:
    """Variables multiplied by a factor."""
    return changed(name, *variables, by=lambda values: values * np.asarray(factor))


def shifted(name: str, amount: ArrayLike, *variables: str) -> Mistake:
    """Variables with an amount added."""
    return changed(name, *variables, by=lambda values: values + np.asarray(amount))


def rolled(name: str, dimension: str, *variables: str) -> Mistake:
    """Variables shifted by one along a dimension, so that seeds or curves are exchanged.

    >>> data = xr.Dataset({"loss": ("seed", [1.0, 2.0, 3.0])})
    >>> rolled("seeds shuffled", "seed", "loss").make(data)["loss"].values
    array([3., 1., 2.])
    """

    def roll(values: xr.DataArray) -> xr.DataArray:
        return values.roll({dimension: 1}, roll_coords=False)

    return changed(name, *variables, by=roll)


def swapped(name: str, one: str, other: str) -> Mistake:
    """Two variables exchanged."""

    def swap(data: xr.Dataset) -> xr.Dataset:
        return data.assign({one: data[other].variable, other: data[one].variable})

    return Mistake(name, swap)


def replaced(name: str, values: Mapping[str, ArrayLike]) -> Mistake:
    """Variables replaced by other values of the same dimensions."""

    def replace(data: xr.Dataset) -> xr.Dataset:
        dims = {variable: data[variable].dims for variable in values}
        arrays = {
            variable: np.broadcast_to(np.asarray(array), data[variable].shape)
            for variable, array in values.items()
        }
        return data.assign({variable: (dims[variable], arrays[variable]) for variable in values})

    return Mistake(name, replace)


def changed(name: str, *variables: str, by: Callable[[xr.DataArray], xr.DataArray]) -> Mistake:
    """Variables changed by a function, one at a time."""

    def change(data: xr.Dataset) -> xr.Dataset:
        return data.assign({variable: by(data[variable]).variable for variable in variables})

    return Mistake(name, change)
