"""Sweeps: many settings into one labelled array, resumable, on one machine or a cluster."""

from saddlescope.sweep._sweep import Estimate, Sweep
from saddlescope.sweep.axes import (
    integers,
    linear_range,
    log_range,
    log_uniform,
    uniform,
    zipped,
)

__all__ = [
    "Estimate",
    "Sweep",
    "integers",
    "linear_range",
    "log_range",
    "log_uniform",
    "uniform",
    "zipped",
]
