"""The large presets, trained once on a GPU: their metrics, and how to make them again.

One file for each source, schedule and depth. `python -m saddlescope.transformer.recorded FOLDER
[NAME …]` trains them again, resuming each where it was interrupted, and writes the files kept here.
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
from saddlescope.setting.nested import replace_fields
from saddlescope.transformer._grokking import GrokkingExperiment
from saddlescope.transformer._induction import InductionExperiment
from saddlescope.transformer._metrics import from_bytes, to_bytes

Experiments = dict[str, InductionExperiment | GrokkingExperiment]


def _by_depth(name: str, depths: tuple[int, ...], experiment: InductionExperiment) -> Experiments:
    return {f"{name}-{depth}": replace_fields(experiment, {"layers": depth}) for depth in depths}


_REPEATED = InductionExperiment.large("repeated")
EXPERIMENTS: Experiments = {
    **_by_depth("repeated-constant", (1, 2, 3, 4), _REPEATED),
    **_by_depth(
        "repeated-decaying",
        (1, 2, 4),
        replace_fields(_REPEATED, {"cooldown": _REPEATED.steps - _REPEATED.warmup}),
    ),
    **_by_depth(
        "text-constant",
        (1, 2),
        InductionExperiment.large(
            "text", text_path="corpus", text_bytes=64_000_000, context=256, steps=15_000
        ),
    ),
    "grokking": GrokkingExperiment.large(),
}
SEEDS = 3
# Left out because no figure shows it, to keep the files small.
_LEFT_OUT = ("copying", "norm", "ov_effective_rank", "qk_effective_rank", "token_loss")


def recorded(name: str, seeds: int = SEEDS) -> xr.Dataset:
    """The metrics of one of the recorded experiments: `grokking`, or the start of some names.

    `repeated-constant` holds all of its depths. Of its first seeds; three were trained.

    >>> recorded("grokking").sizes["seed"]
    3
    >>> recorded("repeated-decaying")["layers"].to_numpy().tolist()
    [1, 2, 4]
    """
    if whole_number("seeds", seeds) > SEEDS:
        raise InvalidInput("seeds", seeds, f"must be at most {SEEDS}: no more were recorded")
    parts = [_read(one) for one in _parts(name)]
    if len(parts) == 1:
        return parts[0].isel(seed=slice(seeds))
    whole = xr.concat(parts, "layers", join="outer", combine_attrs="drop_conflicts")
    return whole.isel(seed=slice(seeds))


def digest(name: str) -> str:
    """What names the recorded metrics themselves."""
    content = b"".join(_path(one).read_bytes() for one in _parts(name))
    return hashlib.sha256(content).hexdigest()[:16]


def record(name: str, folder: str | Path) -> Path:
    """Train one of the experiments and write its metrics as they are kept here.

    Finished parts are kept in the folder, and the same call resumes from there.
    """
    unfinished = Path(folder) / f"{name}-unfinished"
    dataset = EXPERIMENTS[one_of("name", name, tuple(EXPERIMENTS))].run(unfinished)
    metrics = dataset.drop_vars([left for left in _LEFT_OUT if left in dataset])
    packed = Path(folder) / f"{name}.nc.gz"
    # Without a time stamp the same metrics are the same file.
    write_bytes(packed, gzip.compress(to_bytes(metrics), mtime=0))
    shutil.rmtree(unfinished)
    return packed


def _parts(name: str) -> list[str]:
    groups = {one.rpartition("-")[0] or one for one in EXPERIMENTS}
    chosen = one_of("name", name, tuple(sorted(groups)))
    return [one for one in EXPERIMENTS if (one.rpartition("-")[0] or one) == chosen]


def _read(name: str) -> xr.Dataset:
    metrics = from_bytes(gzip.decompress(_path(name).read_bytes()))
    if metrics.attrs["setting"] != EXPERIMENTS[name].setting():
        raise CannotRead(f"the recorded {name} is of another experiment than this version's")
    return metrics


def _path(name: str) -> Path:
    return Path(__file__).parent / f"{name}.nc.gz"
