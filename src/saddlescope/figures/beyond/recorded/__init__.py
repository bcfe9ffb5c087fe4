"""The first drops of a million starts, found once on a GPU, and how they were found.

`python -m saddlescope.figures.beyond.recorded FILE` finds them again and writes what lies here.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from pathlib import Path

import jax
import numpy as np
import xarray as xr

from saddlescope.dynamics import GradientFlow, train
from saddlescope.errors import CannotRead
from saddlescope.figures.zhang.staircase import STAIRCASE
from saddlescope.running.files import write_text
from saddlescope.theory import drop_time_law
from saddlescope.theory.parametrisation import population_law

STARTS = 10**6
SCALE = 0.01
# Nine of a million starts should not have dropped when the run ends.
_LAST_SHARE = 1 - 9e-6
# The drops are counted at times that should part the starts so.
_SHARES = np.concatenate(
    [[1e-5, 1e-4], np.linspace(1e-3, 0.999, 999), [0.9995, 0.9999, 0.99995, 0.99999]]
)
_FILE = Path(__file__).with_name("drop-times.json")


def recorded() -> xr.Dataset:
    """How many of the starts had dropped by each time.

    >>> recorded().attrs["starts"]
    1000000
    """
    try:
        found = json.loads(_FILE.read_text())
        dropped = xr.DataArray(found.pop("dropped"), [("time", found.pop("time"))])
    except (OSError, ValueError, KeyError) as error:
        raise CannotRead(f"the recorded drop times cannot be read: {error}") from None
    return xr.Dataset({"dropped": dropped}, attrs=found)


def digest() -> str:
    """What names the recorded drop times themselves."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()[:16]


def record(path: Path) -> None:
    """Train all starts, twice, since the first time compiles, and count their first drops."""
    law = drop_time_law(STAIRCASE.model, population_law(STAIRCASE.task), SCALE)
    flow = GradientFlow(until=100.0 * math.ceil(law.quantiles(_LAST_SHARE) / 100))
    own = STAIRCASE.replace(method=flow, init_scale=SCALE, keep="drops", seeds=STARTS)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        run = train(own)
        seconds.append(round(time.perf_counter() - began, 2))
    # Those that have not dropped are NaN, which comes last.
    first = np.sort(run.dataset["drop_time"].to_numpy()[:, 0])
    times = np.append(law.quantiles(_SHARES).round(1), flow.until)
    found = {
        "starts": STARTS,
        "init_scale": SCALE,
        "until": flow.until,
        "device": jax.devices()[0].device_kind,
        "solver": run.dataset.attrs.get("solver", "xla"),
        "rtol": flow.rtol,
        "seconds": seconds[1],
        "seconds_with_compiling": seconds[0],
        "time": times.tolist(),
        "dropped": np.searchsorted(first, times, side="right").tolist(),
    }
    write_text(path, json.dumps(found) + "\n")
