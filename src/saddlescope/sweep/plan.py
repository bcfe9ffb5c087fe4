"""The plan of a sweep: a base, axes over its fields, and what to keep of each point."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray, FloatArray, list_seeds, listed, seed_labels, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.own import load_module
from saddlescope.setting.plain import Plain, check_fields, digest
from saddlescope.sweep.axes import MOST_VALUES, Draws, Values, axis_to_plain, label, make_axis
from saddlescope.sweep.subjects import AbstractSubject, make_subject, read_base

FORMAT = 1
POINT = "point"
SEED = "seed"
_FIELDS = ("format", "base", "axes", "keep", "draws", "draw_seed", "modules", "batch_rows")
_MOST_ROWS = 100_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """A base, axes over its fields, and what to keep.

    - `base`: a `Setting`, or an experiment with transformers.
    - `axes`: values by field. A list is a dimension; zipped and random values share the dimension
      `point`; `seeds` are the seeds of every point, unless they are zipped or random.
    - `keep`: what to keep of every row: names, and the user's own functions.
    - `draws`: the number of random points, where zipped values do not determine it.
    - `draw_seed`: the seed of the random values.
    - `modules`: files with the user's own tasks, models and measures.
    - `batch_rows`: how many rows run together; by default about two seconds of one core's work.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> base = ss.Setting(ss.MergedAttention(2), task, ss.GradientFlow(until=100), seeds=3)
    >>> plan = Plan(base, {"heads": [2, 4], "init_scale": ss.log_range(.01, 1, 5)})
    >>> plan.dimensions
    {'heads': 2, 'init_scale': 5, 'seed': 3}
    """

    base: object
    axes: Mapping[str, object] = field(default_factory=dict)
    keep: Iterable[str | Callable[..., object]] = ()
    draws: int | None = None
    draw_seed: int = 0
    modules: Iterable[str | Path] = ()
    batch_rows: int | None = None

    def __post_init__(self) -> None:
        kept = tuple(listed("keep", self.keep, "must be a list of names"))
        modules = listed("modules", self.modules, "must be a list of files")
        made = {name: make_axis(name, value) for name, value in self.axes.items()}
        seed = whole_number("draw_seed", self.draw_seed, at_least=0)
        paths = tuple(map(str, modules))
        checked = {"axes": made, "draw_seed": seed, "modules": paths, "keep": kept}
        for name, most in (("draws", MOST_VALUES), ("batch_rows", _MOST_ROWS)):
            if getattr(self, name) is not None:
                checked[name] = whole_number(name, getattr(self, name), at_most=most)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for path in paths:
            load_module("modules", Path(path))
        for name, values in self.crossed.items():
            if len({label(value) for value in values}) < len(values):
                raise InvalidInput(f"axes.{name}", values, "must hold each value once")
        self.subject.check_axes([name for name in made if name != "seeds"])
        # This also checks the shared dimension.
        rows = math.prod(self.dimensions.values())
        if rows > _MOST_ROWS:
            raise InvalidInput("axes", f"{rows:.3g} rows", f"must be at most {_MOST_ROWS}")

    @cached_property
    def subject(self) -> AbstractSubject:
        """What is swept, what is kept of it, and how it runs."""
        return make_subject(self.base, tuple(self.keep))

    @cached_property
    def shared(self) -> dict[str, tuple[object, ...]]:
        """The values of the fields that share the dimension `point`, one per point."""
        lengths = {
            name: len(axis.values)
            for name, axis in self._axes.items()
            if isinstance(axis, Values) and axis.shared
        }
        drawn = [name for name, axis in self._axes.items() if isinstance(axis, Draws)]
        counts = set(lengths.values()) | ({self.draws} if self.draws is not None else set())
        if len(counts) > 1:
            raise InvalidInput(
                "draws" if self.draws is not None else "axes",
                self.draws if self.draws is not None else lengths,
                "zipped and random axes must have the same length",
            )
        if drawn and not counts:
            raise InvalidInput("draws", None, f"must say how many {drawn[0]} to draw")
        if self.draws is not None and not (drawn or lengths):
            raise InvalidInput("draws", self.draws, "there is no random axis")
        count = counts.pop() if counts else 0
        values: dict[str, tuple[object, ...]] = {}
        for name, axis in self._axes.items():
            if isinstance(axis, Draws):
                # A field's draws do not depend on which others are drawn.
                source = [self.draw_seed, *name.encode()]
                values[name] = axis.draw(count, np.random.default_rng(source))
            elif name in lengths:
                values[name] = axis.values
        return values

    @cached_property
    def crossed(self) -> dict[str, tuple[object, ...]]:
        """The values of the fields that are a dimension each."""
        return {
            name: axis.values
            for name, axis in self._axes.items()
            if isinstance(axis, Values) and not axis.shared and name != "seeds"
        }

    @cached_property
    def seeds(self) -> tuple[int, ...] | None:
        """The seeds of every point; None where each point has its own."""
        if "seeds" in self.shared:
            return None
        axis = self._axes.get("seeds")
        return self.subject.seeds if axis is None else seed_labels(axis.values)  # type: ignore[union-attr]

    @cached_property
    def dimensions(self) -> dict[str, int]:
        """The dimensions of the labelled array, in order."""
        sizes = {name: len(values) for name, values in self.crossed.items()}
        if self.shared:
            sizes[POINT] = len(next(iter(self.shared.values())))
        return sizes | ({} if self.seeds is None else {SEED: len(self.seeds)})

    @property
    def count(self) -> int:
        """The number of points, seeds not counted."""
        return math.prod(size for name, size in self.dimensions.items() if name != SEED)

    @property
    def rows(self) -> int:
        """The number of rows: one per seed of each point."""
        return self.count * (1 if self.seeds is None else len(self.seeds))

    def choices(self) -> Iterator[dict[str, int]]:
        """The index of each field's value at each point, the last dimension varying fastest."""
        crossed = [len(values) for values in self.crossed.values()]
        points = self.dimensions.get(POINT, 1)
        for *indices, point in np.ndindex(*crossed, points):
            chosen = dict(zip(self.crossed, indices, strict=True))
            yield chosen | dict.fromkeys(self.shared, point)

    def value(self, name: str, index: int) -> object:
        """The value at an index of a field's axis."""
        return (self.crossed | self.shared)[name][index]

    def located(self, wrong: InvalidInput, choice: Mapping[str, int]) -> InvalidInput:
        """The same error, saying at which point it occurs."""
        if not choice:
            return wrong
        at = ", ".join(f"{name} = {self.value(name, index)}" for name, index in choice.items())
        return InvalidInput(wrong.field, wrong.value, f"{wrong.allowed} (at {at})")

    def coordinates(self) -> dict[str, tuple[str, AnyArray]]:
        """The coordinates of the labelled array: for each its dimension and its labels."""
        labels = {name: (name, _labels(values)) for name, values in self.crossed.items()}
        labels |= {name: (POINT, _labels(values)) for name, values in self.shared.items()}
        return labels if self.seeds is None else {**labels, SEED: (SEED, np.array(self.seeds))}

    def to_dict(self) -> dict[str, Plain]:
        """The plan as plain values, as in a TOML file."""
        return {
            "format": FORMAT,
            "base": self.subject.to_dict(),
            "axes": {name: axis_to_plain(axis) for name, axis in self._axes.items()},
            "keep": self.subject.kept(),
            "draws": self.draws,
            "draw_seed": self.draw_seed,
            "modules": {Path(path).name: _text_digest(Path(path)) for path in self.modules},
            "batch_rows": self.batch_rows,
        }

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the plan."""
        return digest(self.to_dict())

    @property
    def _axes(self) -> dict[str, Values | Draws]:
        return self.axes  # type: ignore[return-value]

    def __repr__(self) -> str:
        sizes = " × ".join(f"{size} {name}" for name, size in self.dimensions.items())
        seeds = "" if self.seeds is None else f", seeds {list_seeds(self.seeds)}"
        kept = ", ".join(self.subject.names)
        return f"Plan({type(self.base).__name__}: {sizes}{seeds}; keeps {kept})"


def load_plan(path: Path) -> Plan:
    """Read a plan from a TOML file; the paths of modules are relative to it."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput("plan", str(path), f"cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise InvalidInput("plan", str(path), f"is no TOML: {problem}") from None
    check_fields("plan", values, dict.fromkeys(_FIELDS), ["base"])
    if values.get("format", FORMAT) != FORMAT:
        raise InvalidInput("plan.format", values["format"], f"must be {FORMAT}")
    axes, modules = values.get("axes", {}), values.get("modules", [])
    if not isinstance(axes, Mapping):
        raise InvalidInput("axes", axes, "must be a table of fields and their values")
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise InvalidInput("modules", modules, "must be a list of files")
    files = tuple(str(path.parent / name) for name in modules)
    for file in files:
        # The base may use a class from one of them.
        load_module("modules", Path(file))
    return Plan(
        read_base(values["base"]),
        axes,
        _names(values.get("keep", [])),
        draws=values.get("draws"),
        draw_seed=values.get("draw_seed", 0),
        modules=files,
        batch_rows=values.get("batch_rows"),
    )


def _names(keep: object) -> tuple[str, ...]:
    if not isinstance(keep, list):
        raise InvalidInput("keep", keep, "must be a list of names")
    return tuple(keep)


def _labels(values: tuple[object, ...]) -> AnyArray:
    labels = [label(value) for value in values]
    if any(isinstance(one, str) for one in labels):
        return np.array([str(one) for one in labels], dtype=object)
    numbers: FloatArray = np.array(labels)
    return numbers


def _text_digest(path: Path) -> str:
    return digest(path.read_text(encoding="utf-8"))
