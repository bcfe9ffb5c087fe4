"""Which in-context algorithm a predictor runs: its distance to those of section 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.attention import AbstractAttention
from saddlescope.checks import AnyArray, FloatArray, listed, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_float64
from saddlescope.running.programs import compiled
from saddlescope.tables import html_table, paragraphs, text_table
from saddlescope.task import AbstractTask, Prompts
from saddlescope.theory import Algorithm, Predictor, algorithms
from saddlescope.trajectory import Trajectory

# Probe prompts, and a seed of their own: nobody trains on these.
_PROBES = 2000
_PROBE_SEED = 60_551

# Algorithms whose distances differ by no more than this share, or than the square of rounding,
# count as one: least squares and all principal components, say.
_SAME_DISTANCE = 1e-9
_ROUNDING = 1e-20


_HEADINGS = ("algorithm", "distance")


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmDistances:
    """How far a predictor is from each algorithm, in the mean square on probe prompts.

    `names` are the algorithms', `distances` those to them, [A]; `error` is the predictor's own mean
    square to the label, `label_power` the label's.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> found = ss.identify_algorithm(ss.theory.least_squares, task)
    >>> found.nearest
    'least_squares'
    """

    names: tuple[str, ...]
    distances: Float[np.ndarray, " A"]
    error: float
    """The predictor's own mean-square error on the same prompts."""
    label_power: float
    """The mean square of the targets, against which distances are small or large."""

    @property
    def nearest(self) -> str:
        """The algorithm at the least distance; the first where several compute the same."""
        return str(_nearest(np.array(self.names), self.distances, self.label_power))

    def distance(self, name: str) -> float:
        """The distance to one algorithm."""
        if name not in self.names:
            raise InvalidInput("name", name, f"must be one of {', '.join(self.names)}")
        return float(self.distances[self.names.index(name)])

    def to_dataframe(self) -> pd.DataFrame:
        """One row per algorithm."""
        return pd.DataFrame({"algorithm": self.names, "distance": self.distances})

    def to_dataset(self) -> xr.Dataset:
        """The distances over `algorithm`, the error and the labels' power."""
        scalars = {"error": self.error, "label_power": self.label_power}
        coordinates = {"algorithm": list(self.names)}
        return xr.Dataset({"distance": ("algorithm", self.distances), **scalars}, coordinates)

    def __repr__(self) -> str:
        return f"AlgorithmDistances({len(self.names)} algorithms, nearest {self.nearest!r})"

    def __str__(self) -> str:
        return "\n".join([text_table(_HEADINGS, self._cells(), left=1), f"nearest: {self.nearest}"])

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, self._cells()) + paragraphs([f"nearest: {self.nearest}"])

    def _cells(self) -> list[tuple[str, str]]:
        pairs = zip(self.names, self.distances, strict=True)
        return [(name, f"{distance:.3e}") for name, distance in pairs]


def identify_algorithm(
    predictor: Predictor,
    task: object,
    prompts: Prompts | int | None = None,
    *,
    candidates: Sequence[Algorithm] | None = None,
) -> AlgorithmDistances:
    """Compare any function of prompts with the algorithms of section 5.

    - `predictor`: takes `Prompts` and returns one number for each: the theory's
      `in_context_predictor`, `lambda prompts: model.predict(weights, prompts)`, a network of yours.
    - `task`: the `InContextRegression` whose algorithms are meant.
    - `prompts`: probe prompts, or how many to draw from the task.
    - `candidates`: other algorithms than `theory.algorithms.algorithms(task)`.

    >>> from saddlescope.task import InContextRegression
    >>> from saddlescope.theory import in_context_predictor
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=500)
    >>> identify_algorithm(in_context_predictor(task, learned=2), task).nearest
    'principal_components_2'
    """
    probes = _probes(task, prompts)
    known = algorithms(task) if candidates is None else _checked(candidates)
    predicted = _predictions("predictor", predictor, probes)
    gaps = _table(known, probes) - predicted
    error = float(((predicted - probes.target) ** 2).mean())
    names = tuple(one.name for one in known)
    return AlgorithmDistances(names, (gaps**2).mean(1), error, _power(probes))


def trace_algorithms(
    trajectory: Trajectory,
    task: object = None,
    prompts: Prompts | int | None = None,
    *,
    candidates: Sequence[Algorithm] | None = None,
) -> xr.Dataset:
    """Which algorithm a run is nearest to, at every recorded time.

    `distance` is the mean square on probe prompts over (seed, time, algorithm), `nearest` the name
    of the algorithm at the least one over (seed, time), empty where a seed has diverged, and
    `error` the model's own mean-square error there. `task` is needed where the run was trained on
    given data; the other arguments are those of `identify_algorithm`.

    `candidates` are the algorithms to compare with, those of the task by default.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .1], context_length=31)
    >>> run = ss.train(ss.MergedAttention(8), task, method=ss.GradientFlow(until=400), record=5)
    >>> trace_algorithms(run)["nearest"].values[0, [0, -1]].tolist()
    ['principal_components_0', 'preconditioned_step']
    """
    if not isinstance(trajectory, Trajectory):
        raise InvalidInput("trajectory", trajectory, "must be a Trajectory")
    law = trajectory.setting.task if task is None else task
    if task is None and trajectory.setting.task.is_given:
        raise InvalidInput("task", task, "the run was trained on given data: name the law")
    probes = _probes(law, prompts)
    known = algorithms(law) if candidates is None else _checked(candidates)
    distance, error = _follow(trajectory, probes, _table(known, probes))
    names = np.array([one.name for one in known])
    axes = ("seed", "time")
    coordinates = {name: trajectory.dataset[name] for name in trajectory.dataset["loss"].coords}
    return xr.Dataset(
        {
            "distance": ((*axes, "algorithm"), distance),
            "nearest": (axes, _nearest(names, distance, _power(probes))),
            "error": (axes, error),
        },
        {**coordinates, "algorithm": names},
        {"label_power": _power(probes)},
    )


@in_float64
def _follow(trajectory: Trajectory, probes: Prompts, table: FloatArray) -> tuple[Array, Array]:
    """The distances `[S, T, A]` and the errors `[S, T]` of all recorded weights."""
    model, dataset = trajectory.setting.model, trajectory.dataset
    if not set(model.axes) <= set(dataset):
        raise InvalidInput("record.weights", False, "only recorded weights can be followed")
    if probes.dimension != trajectory.setting.task.dimension:
        wanted = trajectory.setting.task.dimension
        raise InvalidInput("prompts.dimension", probes.dimension, f"the run has D = {wanted}")
    gain = model.gain(probes.fixed_length)
    weights = {name: jnp.asarray(dataset[name].to_numpy()) for name in model.axes}
    batch = jax.tree.map(jnp.asarray, probes)
    return _distances(model, weights, batch, jnp.asarray(table), jnp.asarray(gain))


@compiled
def _distances(
    model: AbstractAttention, weights: Weights, batch: Prompts, table: Array, gain: Array
) -> tuple[Array, Array]:
    def one(at: Weights) -> tuple[Array, Array]:
        predicted = model.predict(at, batch, gain)
        error = ((predicted - batch.target) ** 2).mean()
        return ((table - predicted[None]) ** 2).mean(-1), error

    # One record after another: all at once would hold every prompt's prediction of each.
    return jax.lax.map(lambda row: jax.lax.map(one, row), weights)


def _nearest(names: AnyArray, distances: FloatArray, power: float) -> AnyArray:
    """The first name within rounding of the least distance, along the last axis."""
    known = np.isfinite(distances).all(-1)
    least = np.where(known, distances.min(-1), np.inf)
    bound = (1 + _SAME_DISTANCE) * least + _ROUNDING * power
    first = (distances <= bound[..., None]).argmax(-1)
    return np.where(known, names[first], "")


def _table(known: Sequence[Algorithm], probes: Prompts) -> Float[np.ndarray, "A P"]:
    return np.stack([_predictions(one.name, one, probes) for one in known])


def _predictions(name: str, predictor: Predictor, probes: Prompts) -> FloatArray:
    if not callable(predictor):
        raise InvalidInput(name, predictor, "must be a function of prompts")
    return real_array(f"{name}(prompts)", in_float64(predictor)(probes), (probes.count,))


def _probes(task: object, prompts: Prompts | int | None) -> Prompts:
    if isinstance(prompts, Prompts):
        return prompts
    count = _PROBES if prompts is None else whole_number("prompts", prompts)
    if not isinstance(task, AbstractTask):
        raise InvalidInput("task", task, "cannot be sampled: give the probe prompts")
    return task.sample(count, seed=_PROBE_SEED)


def _power(probes: Prompts) -> float:
    return float((probes.target**2).mean())


def _checked(candidates: Sequence[Algorithm]) -> tuple[Algorithm, ...]:
    known = tuple(listed("candidates", candidates, "must be a list of algorithms"))
    names = [one.name for one in known if isinstance(one, Algorithm)]
    if not names or len(set(names)) != len(known):
        allowed = "must hold at least one algorithm, each name once"
        raise InvalidInput("candidates", candidates, allowed)
    return known
