"""What figures that run one staircase in several cases claim about its levels and its drops."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.figures.kit.claim import Claim, relatively_within, within


def level_claim(name: str, data: xr.Dataset, reached: AnyArray) -> Claim:
    """The plateaus `reached[case, seed, drop]`, each after a drop, lie at their case's levels."""
    predicted = np.broadcast_to(data["level_loss"].to_numpy()[:, None, 1:], reached.shape)
    measured = data["plateau_loss"].to_numpy()[:, :, 1:]
    return within(name, measured[reached], predicted[reached], 1e-3)


def timing_claim(name: str, data: xr.Dataset) -> Claim:
    """The drops that come, come when predicted from the initial weights alone (T13)."""
    measured = data["drop_time"].to_numpy()
    seen = np.isfinite(measured)
    predicted = data["predicted_drop_time"].to_numpy()
    return relatively_within(name, measured[seen], predicted[seen], 0.03)
