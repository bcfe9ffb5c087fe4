"""The large presets, trained once on a GPU: their metrics, and how they were made.

`python -m saddlescope.transformer.recorded FOLDER [NAME …]` trains them again and writes the files
that lie here. On one NVIDIA H200 they took 5, 7 and 2 minutes.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path

import xarray as xr

from saddlescope.checks import one_of, whole_number
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.files import write_bytes
from saddlescope.transformer._grokking import GrokkingExperiment
from saddlescope.transformer._induction import InductionExperiment
from saddlescope.transformer._metrics import from_bytes, to_bytes

EXPERIMENTS: dict[str, InductionExperiment | GrokkingExperiment] = {
    "repeated": InductionExperiment.large("repeated"),
    "text": InductionExperiment.large("text"),
    "grokking": GrokkingExperiment.large(),
}
SEEDS = 3
# What the figures do not show is left out, so that the files stay small.
_LEFT_OUT = ("copying", "norm", "ov_effective_rank", "qk_effective_rank", "token_loss")


def recorded(name: str, seeds: int = SEEDS) -> xr.Dataset:
    """The metrics of one of the recorded experiments, `repeated`, `text` or `grokking`.

    Of its first seeds; three were trained.

    >>> recorded("grokking").sizes["seed"]
    3
    """
    experiment = EXPERIMENTS[one_of("name", name, tuple(EXPERIMENTS))]
    if whole_number("seeds", seeds) > SEEDS:
        raise InvalidInput("seeds", seeds, f"must be at most {SEEDS}: no more were recorded")
    metrics = from_bytes(gzip.decompress(_path(name).read_bytes()))
    if metrics.attrs["setting"] != experiment.setting():
        raise CannotRead(f"the recorded {name} is of another experiment than this version's")
    return metrics.isel(seed=slice(seeds))


def digest(name: str) -> str:
    """What names the recorded metrics themselves."""
    return hashlib.sha256(_path(name).read_bytes()).hexdigest()[:16]


def record(name: str, folder: str | Path) -> Path:
    """Train one of the experiments and write its metrics as they are kept here.

    What is finished of it survives in the folder, and the same call goes on from there.
    """
    unfinished = Path(folder) / f"{name}-unfinished"
    dataset = EXPERIMENTS[one_of("name", name, tuple(EXPERIMENTS))].run(unfinished)
    metrics = dataset.drop_vars([left for left in _LEFT_OUT if left in dataset])
    packed = Path(folder) / f"{name}.nc.gz"
    # Without a time stamp the same metrics are the same file.
    write_bytes(packed, gzip.compress(to_bytes(metrics), mtime=0))
    shutil.rmtree(unfinished)
    return packed


def _path(name: str) -> Path:
    return Path(__file__).parent / f"{name}.nc.gz"
