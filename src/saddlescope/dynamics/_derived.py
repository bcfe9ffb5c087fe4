"""Arrays derived from recorded weights: the effective map and the conserved quantities."""

from __future__ import annotations

from functools import lru_cache, partial

import jax
import numpy as np

from saddlescope.arrays import Array, Weights
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.dynamics._frame import RecordShape
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.precision import to_numpy
from saddlescope.running.programs import compiled


def derive(
    model: AbstractAttention,
    layout: Layout,
    weights: Weights,
    gain: Array,
    padded_to: RecordShape | None = None,
) -> Weights:
    """The derived arrays at every record, [S, T, …], computed in a padded shape if one is given."""
    if padded_to is None:
        return to_numpy(_derive(model, weights, gain))
    larger = to_numpy(_derive(padded_to.model, padded_to.enlarge(weights), gain))
    lead = next(iter(weights.values())).shape[:2]
    return {
        name: larger[name][tuple(map(slice, (*lead, *shape)))]
        for name, shape in derived_shapes(model, layout.shapes)
    }


@compiled
def _derive(model: AbstractAttention, weights: Weights, gain: Array) -> Weights:
    return jax.vmap(jax.vmap(lambda at: _derive_one(model, at, gain)))(weights)


def _derive_one(model: AbstractAttention, weights: Weights, gain: Array) -> Weights:
    conserved = model.conserved(weights)
    if not (isinstance(model, AbstractLinearAttention) and model.is_linear):
        return conserved
    return {"effective_map": model.effective_map(weights, gain), **conserved}


@lru_cache(maxsize=256)
def derived_shapes(
    model: AbstractAttention, shapes: tuple[tuple[str, tuple[int, ...]], ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The shape of each array derived from weights of these shapes."""
    weights = {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in shapes}
    gain = jax.ShapeDtypeStruct((), np.float64)
    derived = jax.eval_shape(partial(_derive_one, model), weights, gain)
    return tuple((name, array.shape) for name, array in derived.items())
