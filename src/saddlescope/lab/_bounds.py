"""Which settings the lab takes: the range of every field, and the reason for a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias

from saddlescope.checks import number, whole_number
from saddlescope.dynamics import PaddedShape
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.setting.plain import Plain, check_format
from saddlescope.task import TaskPool

POINTS = 401
"""The most points that a record may have."""

SMALL = PaddedShape(dimension=4, heads=5, rank=1, seeds=8, points=POINTS)
LARGE = PaddedShape(dimension=8, heads=9, rank=4, seeds=4, points=POINTS, groups=2)
"""The two shapes that all settings are padded to, so that none needs a program of its own."""

MOST_SEEDS = 8
# With full blocks a step takes a product with all pairs of D³ + D² + D features.
_MOST_BLOCK_STEPS = 200_000


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`."""

    low: float
    high: float
    whole: bool = False

    def check(self, field: str, value: Plain) -> None:
        """Raise if a value is outside."""
        try:
            given = whole_number(field, value, 0) if self.whole else number(field, value)
        except InvalidInput:
            kind = "a whole number" if self.whole else "a number"
            raise InvalidInput(field, value, f"the lab takes {kind} from {self}") from None
        if not self.low <= given <= self.high:
            raise InvalidInput(field, value, f"the lab takes {self}")

    def __str__(self) -> str:
        return " to ".join(
            str(int(end)) if self.whole else f"{end:g}" for end in (self.low, self.high)
        )


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[str | bool | int | None, ...]

    def check(self, field: str, value: Plain) -> None:
        """Raise if a value is none of them."""
        if isinstance(value, list | dict) or value not in self.values:
            words = ", ".join(str(one).lower() if one is None else str(one) for one in self.values)
            raise InvalidInput(field, value, f"the lab takes {words}")


@dataclass(frozen=True)
class Falling:
    """A list of numbers in descending order."""

    low: float
    high: float
    most: int

    def check(self, field: str, value: Plain) -> None:
        """Raise if a value is no such list."""
        if not isinstance(value, list) or not 1 <= len(value) <= self.most:
            raise InvalidInput(field, value, f"the lab takes a list of 1 to {self.most} numbers")
        for index, one in enumerate(value):
            Range(self.low, self.high).check(f"{field}[{index}]", one)
        if value != sorted(value, reverse=True):
            raise InvalidInput(field, value, "the lab takes eigenvalues in falling order")


class Law:
    """The distribution of the inputs."""

    names = ("gaussian", "rademacher", "uniform", "laplace", "student:5")

    def check(self, field: str, value: Plain) -> None:
        """Raise if the lab does not offer it."""
        Choice(self.names).check(field, value)


class Pool:
    """The fixed tasks: a single one, as `TaskPool` draws it, given as 1 or written out."""

    def check(self, field: str, value: Plain) -> None:
        """Raise if it is another one, or if there are several."""
        drawn = [
            TaskPool([1.0] * size, 1, tasks=1).tasks.tolist()
            for size in range(1, LARGE.dimension + 1)
        ]
        if isinstance(value, bool) or value not in (1, *drawn):
            raise InvalidInput(field, value, "the lab takes 1, and the task that is drawn for it")


Bound: TypeAlias = Range | Choice | Falling | Law | Pool

# Not rmsprop: rounding decides where it ends, and a padded run rounds differently.
OPTIMISERS = ("adam", "sgd", "adagrad", "lion")

_STEPS = Range(1, 1_000_000, whole=True)
_RATE = Range(1e-5, 100.0)
_COUNTS = Range(1, 1024, whole=True)
_MODEL: dict[str, Bound] = {
    "heads": Range(1, LARGE.heads, whole=True),
    "normalisation": Choice(("context",)),
    "blocks": Choice(("reduced", "full")),
    "activation": Choice(("linear",)),
    "softmax_scale": Range(1.0, 1.0),
}
_TASK: dict[str, Bound] = {
    "spectrum": Falling(1e-3, 10.0, LARGE.dimension),
    "context_length": _COUNTS,
}
_METHOD: dict[str, Bound] = {
    "converged": Choice((None,)),
    "precision": Choice(("float64",)),
}
FIELDS: Mapping[str, Mapping[str, Mapping[str, Bound]]] = {
    "model": {
        "separate": {**_MODEL, "rank": Range(1, LARGE.rank, whole=True)},
        "merged": _MODEL,
    },
    "task": {
        "in_context_regression": {
            **_TASK,
            "label_noise": Range(0.0, 10.0),
            "inputs": Law(),
            "task_covariance": Choice((None,)),
            "query_covariance": Choice((None,)),
        },
        "task_pool": {
            **_TASK,
            "tasks": Pool(),
            "share": Range(0.0, 1.0),
            "labels": Choice(("consistent",)),
        },
    },
    "method": {
        "descent": {**_METHOD, "learning_rate": _RATE, "steps": _STEPS},
        "flow": {
            **_METHOD,
            "until": Range(1.0, 1e7),
            "rtol": Range(1e-10, 1e-4),
            "atol": Range(1e-13, 1e-4),
            "solver": Choice(("auto", "explicit", "stiff")),
        },
        "optimiser": {
            **_METHOD,
            "optimiser": Choice(OPTIMISERS),
            "learning_rate": _RATE,
            "steps": _STEPS,
            "batch_size": Choice((None,)),
            "key": Choice((0,)),
            "options": Choice((None,)),
            "label": Choice((None,)),
        },
    },
    "init": {"random": {"init_scale": Range(1e-6, 10.0)}},
    "record": {
        "record": {
            "points": Range(2, POINTS, whole=True),
            "spacing": Choice(("linear", "log")),
            "at": Choice((None,)),
            "weights": Choice((True,)),
            "keep": Choice(("trajectory",)),
        }
    },
}
"""For each part of a setting the kinds that the lab takes, with a bound for each field."""


def limits() -> dict[str, object]:
    """The ranges as plain values, for the controls of the page."""
    found: dict[str, object] = {
        "seeds": asdict(Range(1, MOST_SEEDS, whole=True)),
        "dimension": asdict(Range(1, LARGE.dimension, whole=True)),
        "laws": list(Law.names),
        "optimisers": list(OPTIMISERS),
    }
    for kinds in FIELDS.values():
        for fields in kinds.values():
            for name, bound in fields.items():
                if isinstance(bound, Range | Falling):
                    found[name] = asdict(bound)
    return found


def read_setting(values: Plain) -> Setting:
    """The setting that plain values describe, if the lab takes it.

    Every field is checked before anything is built from it, so that no value can ask for more
    memory than a message holds.

    >>> read_setting({"model": {"kind": "separate", "heads": 40}})
    Traceback (most recent call last):
    saddlescope.errors.InvalidInput: model.heads = 40: the lab takes 1 to 9
    """
    if not isinstance(values, Mapping):
        raise InvalidInput("setting", values, "must be a mapping of fields to values")
    given = check_format(values)
    for name, value in given.items():
        if name == "seeds":
            _check_seeds(value)
        elif name in FIELDS:
            _check_part(name, value)
        else:
            allowed = ", ".join([*FIELDS, "seeds"])
            raise InvalidInput(f"setting.{name}", value, f"unknown field; allowed: {allowed}")
    setting = Setting.from_dict(given)
    _check_whole(setting)
    return setting


def with_points_of_page(setting: Setting) -> Setting:
    """The setting with at most as many points as the page draws."""
    return setting.replace(points=POINTS) if setting.record.points > POINTS else setting


def check_setting(setting: Setting) -> None:
    """Raise if the lab does not take a setting, or could not write it into its address."""
    arrays: dict[str, object] = {}
    values = setting.to_dict(arrays)  # type: ignore[arg-type]
    if arrays:
        raise InvalidInput("setting", setting, "holds data: the lab takes distributions only")
    read_setting(values)


def padded_shape(setting: Setting) -> PaddedShape:
    """The smaller of the two shapes that a setting fits in."""
    sizes = (setting.task.dimension, setting.model.heads, getattr(setting.model, "rank", 1))
    fits = all(
        size <= most
        for size, most in zip(sizes, (SMALL.dimension, SMALL.heads, SMALL.rank), strict=True)
    )
    return SMALL if fits else LARGE


def _check_seeds(value: Plain) -> None:
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MOST_SEEDS:
        raise InvalidInput("seeds", value, f"the lab takes {MOST_SEEDS} at most")
    for one in listed:
        high = 2.0**53 if isinstance(value, list) else float(MOST_SEEDS)
        low = 0.0 if isinstance(value, list) else 1.0
        Range(low, high, whole=True).check("seeds", one)


def _check_part(part: str, value: Plain) -> None:
    kinds = FIELDS[part]
    if not isinstance(value, Mapping) or "kind" not in value:
        raise InvalidInput(part, value, "must be a mapping of fields to values, with its kind")
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidInput(f"{part}.kind", kind, f"the lab takes {', '.join(kinds)}")
    for name, one in value.items():
        if name == "kind":
            continue
        if name not in kinds[kind]:
            allowed = f"unknown field; allowed: {', '.join(kinds[kind])}"
            raise InvalidInput(f"{part}.{name}", one, allowed)
        kinds[kind][name].check(f"{part}.{name}", one)


def _check_whole(setting: Setting) -> None:
    """Check what no field says by itself: how long full blocks take."""
    if getattr(setting.model, "blocks", "reduced") == "reduced":
        return
    dimension, end = setting.task.dimension, setting.method.end
    sizes = {
        "task.dimension": (dimension, SMALL.dimension),
        "model.heads": (setting.model.heads, SMALL.heads),
        "model.rank": (getattr(setting.model, "rank", 1), SMALL.rank),
    }
    for field, (size, largest) in sizes.items():
        if size > largest:
            raise InvalidInput(field, size, f"with all blocks the lab takes {largest} at most")
    if setting.method.counts_steps and end > _MOST_BLOCK_STEPS:
        most = f"with all blocks more than {_MOST_BLOCK_STEPS} would take minutes"
        raise InvalidInput("method.steps", int(end), most)
