"""Runs made by hand, for what figures compute from a run."""

from types import SimpleNamespace

import pytest
import xarray as xr

from saddlescope.trajectory import Trajectory


@pytest.fixture(scope="session")
def bare_run():
    """Makes a trajectory that holds a data set and a task, and nothing that training needs."""

    def make(dataset: xr.Dataset, task: object = None) -> Trajectory:
        run = object.__new__(Trajectory)
        object.__setattr__(run, "dataset", dataset)
        object.__setattr__(run, "setting", SimpleNamespace(task=task))
        return run

    return make
