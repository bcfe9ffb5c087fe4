"""`load`: an observation as one labelled dataset over (step, layer, head)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from saddlescope.checks import AnyArray
from saddlescope.observe._padding import stacked
from saddlescope.observe.store import LIVE, Record, read_records, store_kind
from saddlescope.running.files import as_path

_AXES: dict[int, tuple[str, ...]] = {0: (), 2: ("layer", "head"), 3: ("layer", "head", "index")}
_LOSSES = ("loss_step", "loss")


def load(path: str | Path) -> xr.Dataset:
    """The observation in a folder, whether its run has ended or not.

    Over (step, layer, head): `qk_effective_rank`, `qk_marginal_rank`, `qk_stable_rank`, `qk_norm`,
    `qk_spectral_norm`, `qk_drift` (since the previous record, at step `drift_from`), `qk_turn`
    (since the first), the same for OV, and `prefix_matching`; `qk_spectrum` and `ov_spectrum` also
    over `index`; `in_context_score` and `probe_loss` over (step). `loss` is over a `loss_step` of
    its own, since losses are known more often. Steps repeated after a restart are those of the last
    session. What could not be measured is NaN, and the attribute `problems` says why.

    >>> import saddlescope as ss
    >>> import pathlib, tempfile, torch
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> torch.save(torch.nn.MultiheadAttention(8, 2).state_dict(), folder / "step10.pt")
    >>> done = ss.observe.observe_checkpoints([folder], folder / "observed", heads=2)
    >>> ss.observe.load(done.out).qk_effective_rank.shape
    (1, 1, 2)
    """
    folder = as_path("path", path)
    kind = store_kind(folder)
    records, damaged = read_records(folder)
    kept = _last_course(records) if kind == LIVE else records
    by_step = {record.step: record for record in kept if record.layers}
    shown = [by_step[step] for step in sorted(by_step)]
    names = sorted({name for record in shown for name in record.arrays if name not in _LOSSES})
    layers = max((record.layers for record in shown), key=len, default=())
    data = {}
    for name in names:
        arrays = {n: one.arrays[name] for n, one in enumerate(shown) if name in one.arrays}
        axes = _AXES[next(iter(arrays.values())).ndim]
        data[name] = (("step", *axes), stacked(arrays, len(shown)).astype(float))
    by_head = [array.shape[1:3] for axes, array in data.values() if "head" in axes]
    heads = max((shape[1] for shape in by_head), default=0)
    # A model may have attention patterns in more layers than those whose weights were found.
    count = max((len(layers), *(shape[0] for shape in by_head)))
    layers = (*layers, *[""] * (count - len(layers)))
    data = {
        name: (axes, _widened(axes, array, count, heads)) for name, (axes, array) in data.items()
    }
    losses = _losses(records)
    dataset = xr.Dataset(
        {**data, "loss": ("loss_step", np.array(list(losses.values()), float))},
        coords={
            "step": [record.step for record in shown],
            "loss_step": _whole_if_all_are(list(losses)),
            "layer": range(len(layers)),
            "layer_name": ("layer", list(layers)),
            "head": range(heads),
            "source": ("step", [str(record.source.get("path", "")) for record in shown]),
            "drift_from": ("step", [_or_nan(record.drift_from) for record in shown]),
        },
    )
    problems = [f"step {one.step}: {line}" for one in kept for line in one.problems]
    notes = dict.fromkeys(note for record in shown for note in record.notes)
    dataset.attrs = {
        "kind": kind,
        "adapter": shown[-1].adapter if shown else "",
        "notes": list(notes),
        "problems": [*damaged, *problems],
    }
    return dataset


def _last_course(records: Sequence[Record]) -> list[Record]:
    """The records without those that a later session repeated."""
    begins: dict[int, int] = {}
    for record in records:
        begins.setdefault(record.session, record.step)
    kept = []
    for record in records:
        redone = [step for session, step in begins.items() if session > record.session]
        if record.step < min(redone, default=record.step + 1):
            kept.append(record)
    return kept


def _losses(records: Sequence[Record]) -> dict[float, float]:
    """The losses by step, in order; a later record replaces an earlier one."""
    pairs: dict[float, float] = {}
    for record in records:
        if "loss" in record.arrays:
            steps, values = (record.arrays[name].tolist() for name in _LOSSES)
            first = min(steps, default=0)
            # A restart: what was recorded beyond it is void.
            if record.session:
                pairs = {step: value for step, value in pairs.items() if step < first}
            pairs |= dict(zip(steps, values, strict=True))
    return dict(sorted(pairs.items()))


def _whole_if_all_are(steps: Sequence[float]) -> AnyArray:
    """Steps as whole numbers, unless a log has fractions of a step."""
    values = np.array(steps, float)
    return values.astype(int) if (values == np.floor(values)).all() else values


def _or_nan(step: int | None) -> float:
    return np.nan if step is None else float(step)


def _widened(axes: tuple[str, ...], array: AnyArray, layers: int, heads: int) -> AnyArray:
    if "head" not in axes:
        return array
    rest = [(0, 0)] * (array.ndim - 3)
    room = [(0, 0), (0, layers - array.shape[1]), (0, heads - array.shape[2]), *rest]
    return np.pad(array, room, constant_values=np.nan)
