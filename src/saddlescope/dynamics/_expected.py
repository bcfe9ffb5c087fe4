"""Estimates of how long a run will take, from its theoretical rates and plateaus."""

from __future__ import annotations

import jax
import numpy as np

from saddlescope.attention import AbstractLinearAttention, AbstractStart
from saddlescope.dynamics._prepared import Prepared
from saddlescope.risk import AbstractMapRisk

# Seconds on one core for a step of a row, divided by its weights times D: measured on ensembles of
# D = 4, H = 5. For a flow it is per step of `expected_steps`; the solver's own steps are longer.
_SECONDS_OF_STEP, _SECONDS_OF_FLOW = 3e-10, 5e-9
# For a step on prompts, per prompt.
_SECONDS_OF_PROMPT = 2e-9


def expected_seconds(prepared: Prepared, steps: float) -> float:
    """Roughly how many seconds of one core a row of so many expected steps takes."""
    method, layout = prepared.setting.method, prepared.problem.layout
    products = layout.size * layout.dimension
    if method.is_stochastic or not prepared.setting.model.is_linear:
        batch = getattr(method, "batch_size", None)
        prompts = int(getattr(prepared.setting.task, "count", 1) if batch is None else batch)
        return steps * prompts * products * _SECONDS_OF_PROMPT
    return steps * products * (_SECONDS_OF_STEP if method.counts_steps else _SECONDS_OF_FLOW)


def expected_steps(prepared: Prepared, init: AbstractStart | None = None) -> float:
    r"""Roughly how many steps a seed takes, relative to others of its shape.

    The steps of a flow are as long as the fastest rate at its last rest allows. A flow that may
    stop at convergence does so after about its longest plateau, $1/(\lambda^2 w)$ (Z eq. 68), where
    λ² is the drive. `init` replaces the setting's own start.
    """
    method, problem, model = prepared.setting.method, prepared.problem, prepared.setting.model
    span = float(prepared.grid[-1] - prepared.grid[0])
    if method.counts_steps or not isinstance(model, AbstractLinearAttention):
        return span
    risk = jax.tree.map(np.asarray, problem.risk)
    best = risk.best_map(model.capacity(problem.dimension)) if model.is_linear else None
    if best is None or not best.any() or not isinstance(risk, AbstractMapRisk):
        return span
    force = np.asarray(risk.map_force(np.zeros_like(best)))
    drive = np.abs(np.diagonal(force))
    if method.converged is not None:
        setting, seed = prepared.setting, prepared.seeds[:1]
        start = (init or setting.init).ensemble(model, setting.task, seed)
        squares = np.concatenate([array.ravel() ** 2 for array in start.values()])
        width = float(np.sqrt(squares.mean())) ** (model.degree - 2)
        plateau = 1 / max(drive[drive > 0].min(initial=np.inf) * width, np.finfo(float).tiny)
        span = min(span, plateau)
    values = np.abs(np.diagonal(best))
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.nan_to_num(drive * values ** (1 - 2 / model.degree))
    return span * model.degree * max(float(rates.max()), np.finfo(float).eps)
