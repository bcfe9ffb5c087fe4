"""The manifest of a store: its plans, code versions, columns and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import saddlescope
from saddlescope.checks import AnyArray
from saddlescope.running.code import modules_digest
from saddlescope.setting.plain import Plain
from saddlescope.sweep.batches import Batches
from saddlescope.sweep.plan import Plan
from saddlescope.sweep.subjects import Column

_COMPUTING = (
    "attention",
    "comparison",
    "dynamics",
    "measure",
    "risk",
    "running",
    "setting",
    "task",
    "theory",
    "transformer",
)
# Modules of this folder that only show results.
_SHOWING = ("page.py", "picture.py")
_LIBRARIES = ("diffrax", "equinox", "jax", "jaxlib", "numpy", "optax", "scipy")


@dataclass(frozen=True)
class Manifest:
    """The manifest of a store.

    - `plans`: as plain values, from the first to the latest extension.
    - `counts`: the number of batches that each plan added.
    - `code`: the versions of the code that computes it.
    - `chunk`: the number of rows in the chunk of a batch.
    """

    plans: tuple[Plain, ...]
    digest: str
    counts: tuple[int, ...]
    code: Mapping[str, str]
    chunk: int
    columns: tuple[Column, ...]
    dimensions: Mapping[str, list[Plain]]
    shared: Mapping[str, list[Plain]]

    @classmethod
    def of(cls, generations: list[Batches], chunk: int) -> Manifest:
        """The manifest of a store with these batches."""
        plan = generations[-1].plan
        coordinates = plan.coordinates()
        dimensions: dict[str, list[Plain]] = {
            name: list(range(size)) for name, size in plan.dimensions.items()
        }
        dimensions |= {
            name: _plain(labels) for name, (along, labels) in coordinates.items() if along == name
        }
        shared = {
            name: _plain(labels) for name, (along, labels) in coordinates.items() if along != name
        }
        return cls(
            tuple(one.plan.to_dict() for one in generations),
            plan.digest,
            tuple(len(one) for one in generations),
            code_versions(),
            chunk,
            generations[-1].columns,
            dimensions,
            shared,
        )

    @property
    def batches(self) -> int:
        """The number of batches."""
        return sum(self.counts)

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        columns = [[one.name, list(one.axes), list(one.sizes)] for one in self.columns]
        plain = {name: value for name, value in vars(self).items() if name != "columns"}
        lists = {name: list(plain[name]) for name in ("plans", "counts")}
        return {**plain, **lists, "columns": columns}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Manifest:
        """The inverse of `to_dict`."""
        given = dict(values)
        for name in ("plans", "counts", "columns"):
            given[name] = tuple(given[name])  # type: ignore[arg-type]
        given["columns"] = tuple(
            Column(name, tuple(axes), tuple(sizes))
            for name, axes, sizes in given["columns"]  # type: ignore[attr-defined]
        )
        return cls(**given)  # type: ignore[arg-type]


def code_versions() -> dict[str, str]:
    """The versions of the package, its modules, and the libraries that they use."""
    own = [path for path in Path(__file__).parent.rglob("*.py") if path.name not in _SHOWING]
    modules = modules_digest(_COMPUTING, own)
    package = {"saddlescope": saddlescope.__version__, "modules": modules}
    return package | {name: version(name) for name in _LIBRARIES}


def differences(before: object, now: object, name: str = "") -> Iterator[str]:
    """Where plain values differ, a few words for each difference.

    >>> list(differences({"axes": {"heads": [2, 4]}}, {"axes": {"heads": [2]}}))
    ['axes.heads was [2, 4] and is [2]']
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield f"{name} was {_short(before)} and is {_short(now)}"


def _short(value: object) -> str:
    text = "not there" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:40]} … {text[-15:]}"


def _plain(labels: AnyArray) -> list[Plain]:
    return list(labels.tolist())


def same_plan(manifest: Manifest, plan: Plan) -> list[str]:
    """The differences between the plan of a store and another; empty if they are the same."""
    return list(differences(manifest.plans[-1], plan.to_dict()))
