"""The result of training: labelled arrays that can be saved, loaded, continued and drawn."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.arrays import Weights
from saddlescope.checks import AnyArray, FloatArray, list_seeds, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting
from saddlescope.tables import counted

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import ArrayLike

    from saddlescope.comparison import Comparison
    from saddlescope.drawing import Drawing
    from saddlescope.measure import Stages

__all__ = ["Outcome", "Outcomes", "Result", "Trajectory"]


class Result(StrEnum):
    """How a seed's run ended.

    >>> import saddlescope as ss
    >>> [result.value for result in ss.Result]
    ['finished', 'converged', 'diverged', 'interrupted']
    """

    FINISHED = "finished"
    CONVERGED = "converged"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """How one seed's run ended; for a diverged one `message` says why, and the cure.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> run.outcomes[0]
    Outcome(result=<Result.FINISHED: 'finished'>, message='')
    """

    result: Result
    message: str = ""


# The order in which results are numbered, in memory and in files.
_RESULTS = tuple(Result)


class Outcomes:
    """How each seed's run ended: one `Outcome` per seed, stored as arrays.

    `codes` are the results by number, [S]; `messages` are keyed by the seed's index.

    >>> ended = Outcomes.of(Outcome(Result.FINISHED), Outcome(Result.DIVERGED, "try less"))
    >>> ended[1].message, ended.are(Result.FINISHED)
    ('try less', array([ True, False]))
    """

    def __init__(self, codes: AnyArray, messages: Mapping[int, str] | None = None) -> None:
        self.codes = np.asarray(codes, dtype=np.int8)
        """The number of each seed's result, in the order of `Result`, [S]."""
        self.messages = dict(messages or {})
        """The messages, by the index of the seed in the ensemble."""

    @classmethod
    def of(cls, *outcomes: Outcome) -> Outcomes:
        """From one outcome per seed."""
        codes = np.array([_RESULTS.index(one.result) for one in outcomes], dtype=np.int8)
        return cls(codes, {i: one.message for i, one in enumerate(outcomes) if one.message})

    @classmethod
    def by_result(cls, seeds: Mapping[Result, AnyArray], messages: Mapping[int, str]) -> Outcomes:
        """From a mask of seeds for each result; where several hold, the first counts."""
        numbers = [np.int8(_RESULTS.index(one)) for one in seeds]
        return cls(np.select(list(seeds.values()), numbers), messages)

    @classmethod
    def all(cls, seeds: int, result: Result) -> Outcomes:
        """The same result for all of `seeds` seeds."""
        return cls(np.full(seeds, _RESULTS.index(result)))

    def followed_by(self, others: Outcomes) -> Outcomes:
        """These outcomes, followed by others."""
        later = {index + len(self): text for index, text in others.messages.items()}
        return Outcomes(np.concatenate([self.codes, others.codes]), {**self.messages, **later})

    def are(self, result: Result) -> AnyArray:
        """Which seeds ended with this result, [S]."""
        return self.codes == _RESULTS.index(result)

    def __getitem__(self, index: int) -> Outcome:
        position = range(len(self))[index]
        return Outcome(_RESULTS[self.codes[position]], self.messages.get(position, ""))

    def __iter__(self) -> Iterator[Outcome]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.codes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcomes):
            return NotImplemented
        return np.array_equal(self.codes, other.codes) and self.messages == other.messages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = {one: int(self.are(one).sum()) for one in sorted(Result)}
        return ", ".join(f"{count} {one}" for one, count in counts.items() if count)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A training run over seeds and time.

    `dataset` is an `xarray.Dataset` over (seed, time, …) with the loss, the weights, the effective
    map and the conserved quantities, or over (quantile, …) where quantiles were kept; `outcomes`
    says how each seed ended; `state` holds what exact continuation needs.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> run.loss.shape, dict(run.dataset["k"].sizes)
    ((1, 3), {'seed': 1, 'time': 3, 'head': 2, 'rank': 1, 'dim': 2})
    """

    dataset: xr.Dataset
    setting: Setting
    outcomes: Outcomes
    state: tuple[AnyArray, ...]
    time_start: float = 0.0
    """The flow time at which the run began: above 0 where it continues an earlier run."""

    @property
    def loss(self) -> FloatArray:
        """The loss of every seed, or every quantile of it, at every recorded time, [S, T]."""
        return self.dataset["loss"].to_numpy()

    @property
    def time(self) -> FloatArray:
        """The recorded flow times, [T]."""
        return self.dataset["time"].to_numpy()

    @property
    def is_complete(self) -> bool:
        """Whether no seed was interrupted."""
        return not self.outcomes.are(Result.INTERRUPTED).any()

    def index_of(self, seed: int) -> int:
        """The index of a seed along the first axis of every array."""
        label = whole_number("seed", seed, at_least=0)
        if self.setting.record.keep == "quantiles":
            raise InvalidInput(
                "seed", seed, "quantiles over seeds were kept, and no seed by itself"
            )
        if label not in self.setting.seeds:
            raise InvalidInput("seed", seed, f"the run has seeds {list_seeds(self.setting.seeds)}")
        return self.setting.seeds.index(label)

    def weights(self, seed: int | None = None, index: int = -1) -> Weights:
        """The weights at a recorded point, of one seed or of all of them."""
        names, points = self.setting.model.axes, len(self.time)
        is_whole = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if not is_whole or not -points <= index < points:
            raise InvalidInput("index", index, f"must be a record, {-points} to {points - 1}")
        if self.setting.record.keep != "trajectory":
            raise InvalidInput("record.keep", self.setting.record.keep, "no weights were kept")
        if index != -1 and not set(names) <= set(self.dataset):
            raise InvalidInput("index", index, "only the last weights were recorded")
        stored = [self.dataset[name if name in self.dataset else f"final_{name}"] for name in names]
        arrays = [array.isel(time=index) if "time" in array.dims else array for array in stored]
        if seed is not None:
            arrays = [array.isel(seed=self.index_of(seed)) for array in arrays]
        return {name: array.to_numpy() for name, array in zip(names, arrays, strict=True)}

    def stages(self, *, smoothing: float | None = None) -> tuple[Stages, ...]:
        """The plateaus and drops of each seed's loss, as measured."""
        from saddlescope.measure import stages

        if self.setting.record.keep != "trajectory":
            raise InvalidInput("record.keep", self.setting.record.keep, "no curve was kept")
        return tuple(
            stages(row[finite], self.time[finite], smoothing=smoothing)
            for row in self.loss
            for finite in [np.isfinite(row)]
        )

    def summary(self, *, quantiles: ArrayLike | None = None) -> xr.Dataset:
        """A few numbers per seed: its drop times, plateau losses and order of learning.

        `drop_time`, `plateau_loss`, `learned_time` and `order` of the eigenvectors, `final_loss`
        and `result`; NaN where unknown. A run that kept drops or quantiles measured them inside the
        solver; for any other run they come from its records, and are as coarse as these are.

        `quantiles` are shares from 0 to 1: the result then holds, for each, the smallest value that
        this share of the seeds does not exceed, also of the `loss` at every record (NaN counts as
        larger than any number), with `order_share` and how many seeds `ended` in which way. A run
        that kept quantiles has nothing else, and returns all of them by default.
        """
        from saddlescope.dynamics._quantiles import summarise_quantiles
        from saddlescope.dynamics._summarise import summarise

        if quantiles is None and self.setting.record.keep != "quantiles":
            return summarise(self)
        return summarise_quantiles(self, quantiles)

    def compare(self) -> Comparison:
        """The run beside its prediction from theory; computed once and cached."""
        return self._comparison

    @cached_property
    def _comparison(self) -> Comparison:
        from saddlescope.comparison import compare

        return compare(self)

    def plot(
        self, *, seed: int | None = None, scale: str | None = None, caption: bool = True
    ) -> Drawing:
        """Draw the run beside its prediction; returns a matplotlib figure.

        `seed` is the one shown in detail, the first by default. `scale` is that of the time axis,
        `"linear"` or `"log"`, chosen by default. `caption=False` omits the caption.
        """
        from saddlescope.drawing import plot

        return plot(self, seed=seed, scale=scale, caption=caption)

    def animate(
        self,
        path: str | Path,
        *,
        seed: int | None = None,
        frames: int = 120,
        frames_per_second: int = 20,
    ) -> Path:
        """Write a film of one seed's run, the first by default: GIF, or MP4 with ffmpeg."""
        from saddlescope.drawing import animate

        return animate(self, path, seed=seed, frames=frames, frames_per_second=frames_per_second)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Save to a folder, as zarr; `load` returns an equal trajectory."""
        from saddlescope.storage import save

        return save(self, path, overwrite=overwrite)

    def equals(self, other: object) -> bool:
        """Whether another trajectory holds the same setting, values and outcomes."""
        return (
            isinstance(other, Trajectory)
            and self.setting == other.setting
            and self.outcomes == other.outcomes
            and self.time_start == other.time_start
            and self.dataset.identical(other.dataset)
        )

    def __repr__(self) -> str:
        seeds, points = counted(len(self.outcomes), "seed"), counted(len(self.time), "point")
        return (
            f"Trajectory({type(self.setting.model).__name__}, {seeds}, {points} to "
            f"time {self.time[-1]:g}: {self.outcomes!r})"
        )

    def _repr_html_(self) -> str:
        from saddlescope.drawing import notebook_display

        return notebook_display(self)


@cache
def _versions() -> str:
    """The versions, as JSON; cached, since looking them up takes longer than a short run."""
    return json.dumps(versions(), sort_keys=True)


def versions() -> dict[str, str]:
    """The versions of everything that a run's numbers depend on."""
    numbers = {"python": platform.python_version()}
    for name in ("saddlescope", "jax", "jaxlib", "diffrax", "numpy"):
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "unknown"
    return numbers


def assemble(
    setting: Setting,
    clock: AnyArray,
    time: FloatArray,
    loss: FloatArray,
    recorded: Mapping[str, FloatArray],
    final: Mapping[str, FloatArray],
) -> xr.Dataset:
    """Name the axes: `recorded` has seed and time in front, `final` has seed."""
    import xarray as xr

    model = setting.model
    axes = {**model.axes, "effective_map": ("dim", "query_dim"), **model.conserved_axes}
    variables: dict[str, tuple[tuple[str, ...], FloatArray]] = {"loss": (("seed", "time"), loss)}
    for name, values in recorded.items():
        variables[name] = (("seed", "time", *axes.get(name, ())), values)
    for name, values in final.items():
        variables[f"final_{name}"] = (("seed", *axes[name]), values)
    coordinates = {"seed": np.array(setting.seeds), **clock_coordinates(setting, clock, time)}
    return describe(xr.Dataset(variables, coordinates), setting)


def clock_coordinates(
    setting: Setting, clock: AnyArray, time: FloatArray
) -> dict[str, FloatArray | tuple[str, AnyArray]]:
    """Flow time, and beside it the steps where these are what the method counts."""
    steps = {"step": ("time", clock)} if setting.method.counts_steps else {}
    return {"time": time, **steps}


def describe(dataset: xr.Dataset, setting: Setting) -> xr.Dataset:
    """Describe the time and the loss, and attach the setting."""
    dataset["loss"].attrs["long_name"] = "population or data loss E(y − ŷ)²"
    dataset["time"].attrs.update(long_name="flow time", units="τ")
    dataset.attrs.update(
        setting=json.dumps(setting.to_dict(), sort_keys=True),
        digest=setting.digest,
        versions=_versions(),
    )
    return dataset
