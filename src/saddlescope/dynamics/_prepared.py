"""A setting prepared to run: its loss, its grid and its starts."""

from __future__ import annotations

from copy import copy

import jax
import numpy as np

from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics._frame import RecordShape
from saddlescope.dynamics._memory import check_run_fits
from saddlescope.dynamics._moving import Moving
from saddlescope.dynamics._summarise import half_learned, plateau_levels
from saddlescope.dynamics.kernels.choice import choose_kernel
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.errors import InvalidInput
from saddlescope.precision import with_float64, within
from saddlescope.risk import AbstractMapRisk, AbstractRisk
from saddlescope.running.cores import on_all_cores
from saddlescope.setting import Setting
from saddlescope.task.samplers import AbstractSampler

# Seeds whose starts are drawn at once; the memory is reused for the next ones.
_STARTS_TOGETHER = 2**13
# Prompts on which the loss is recorded where it is not known exactly.
_PROBES = 4096


class Prepared:
    """A setting that begins at flow time `time_start`, in the precision of its method."""

    @with_float64
    def __init__(self, setting: Setting, time_start: float = 0.0) -> None:
        model, method, task = setting.model, setting.method, setting.task
        self.setting = setting
        self.time_start = time_start
        self.record_shape: RecordShape | None = None
        """The padded shape in which records are processed, None for their own."""
        clock_start = 0.0 if method.counts_steps else time_start
        if method.end <= clock_start:
            raise InvalidInput("until", method.end, f"the run begins at time {clock_start:g}")
        self.seeds_at_once = setting.record.together(len(setting.seeds))
        check_run_fits(setting, Layout.of(model, task.dimension), self.seeds_at_once)
        # Stochastic steps need no exact loss; without one the loss is recorded on probe prompts.
        probing = method.is_stochastic and not model.has_exact_loss
        objective = model.objective(task.probes(_PROBES) if probing else task)
        self.basis = objective.basis
        self.moving, risk = Moving.of(setting, objective.risk)
        layout = self.moving.layout
        self.grid: AnyArray = setting.record.grid(
            clock_start, method.end, whole=method.counts_steps
        )
        group = group_size(self.seeds_at_once, layout.size, layout.dimension)
        self.kernel = choose_kernel([method], model, risk, layout, self.seeds_at_once)
        """The GPU kernel that runs it or its batch, None for XLA."""
        pace, threshold = 1 / self.time_unit(risk), _threshold(setting, risk)
        marks, sampler = _marks(setting, risk), _sampler(setting)
        # Means are over all weights, including those that cannot move.
        size = float(self.moving.whole.size)
        arrays = (sampler, risk, self.grid, len(self.grid), size, pace, threshold, marks)
        with within(self.precision):
            # `jnp.asarray` would compile a program for every shape.
            sampler, risk, grid, points, size, pace, threshold, marks = jax.device_put(arrays)
            self.problem = Problem(
                model=model,
                layout=layout,
                group=group,
                keep_weights=setting.record.weights,
                has_rows=False,
                kernel=self.kernel,
                rule=method.rule(model, layout, group),
                sampler=sampler,
                risk=risk,
                grid=grid,
                points=points,
                size=size,
                pace=pace,
                threshold=threshold,
                marks=None if marks is None else Marks(*marks),
            )

    def restarted(self, setting: Setting) -> Prepared:
        """A copy for a setting that differs only in its start or its seeds."""
        other = copy(self)
        other.setting = setting
        other.seeds_at_once = setting.record.together(len(setting.seeds))
        check_run_fits(setting, self.moving.whole, other.seeds_at_once)
        return other

    @property
    def precision(self) -> str:
        """The precision of all arrays."""
        return self.setting.method.precision

    def time_unit(self, risk: AbstractRisk) -> float:
        """Flow time per unit of the model's own time."""
        return self.setting.model.time_unit(float(risk.gain))

    @property
    def seeds(self) -> AnyArray:
        """The seeds, [S]."""
        return np.array(self.setting.seeds)

    def starts(self, seeds: AnyArray) -> FloatArray:
        """The initial weights that can move, flat and in the coordinates of the risk, [S, n]."""
        return self.moving.pick(self.all_starts(seeds))

    def all_starts(self, seeds: AnyArray) -> FloatArray:
        """All initial weights, flat and in the coordinates of the risk, [S, m]."""
        setting = self.setting
        vectors = np.empty((len(seeds), self.moving.whole.size))

        def fill(first: int) -> None:
            chunk = slice(first, first + _STARTS_TOGETHER)
            weights = setting.init.ensemble(setting.model, setting.task, seeds[chunk])
            if self.basis is not None:
                weights = as_linear(setting.model).rotate(weights, self.basis)
            vectors[chunk] = self.moving.whole.pack(weights)

        on_all_cores(fill, range(0, len(seeds), _STARTS_TOGETHER))
        return vectors

    def flow_time(self, clock: AnyArray) -> FloatArray:
        """Convert the method's clock to flow time."""
        method = self.setting.method
        offset = self.time_start if method.counts_steps else 0.0
        return offset + method.flow_time(clock, self.time_unit(self.problem.risk))


def as_linear(model: AbstractAttention) -> AbstractLinearAttention:
    """A model that is known to be linear attention, for the type checker."""
    assert isinstance(model, AbstractLinearAttention)
    return model


def _marks(setting: Setting, risk: AbstractRisk) -> tuple[FloatArray, FloatArray] | None:
    """The middles and halves to watch for, where drops or quantiles are kept."""
    if setting.record.keep == "trajectory":
        return None
    levels = plateau_levels(setting, risk)
    if levels is None:
        if setting.record.keep == "quantiles":
            return None
        raise InvalidInput(
            "record.keep", setting.record.keep, "the levels of the drops are not known here"
        )
    return (levels[:-1] + levels[1:]) / 2, half_learned(setting, risk)


def _sampler(setting: Setting) -> AbstractSampler | None:
    if not setting.method.is_stochastic:
        return None
    return setting.task.sampler()


def _threshold(setting: Setting, risk: AbstractRisk) -> float:
    """The loss at or below which a seed has converged."""
    share, dimension = setting.method.converged, setting.task.dimension
    if share is None:
        return -np.inf
    model = setting.model
    best = risk.best_map(as_linear(model).capacity(dimension)) if model.is_linear else None
    if best is None:
        raise InvalidInput(
            "converged", share, "the least loss is not known where heads × rank is below D"
        )
    assert isinstance(risk, AbstractMapRisk)
    least, zero = float(risk.map_loss(best)), float(risk.map_loss(np.zeros_like(best)))
    return least + float(share) * (zero - least)
