"""What gradient flow keeps and how fast gradient descent loses it (T14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention, Weights
from saddlescope.checks import FloatArray, number, real_array
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import check_part
from saddlescope.theory.parametrisation import (
    GivenWeights,
    one_seed,
    population_law,
    summarised_model,
)


@dataclass(frozen=True, eq=False, repr=False)
class DescentDrift(BriefRepr):
    """How the conserved quantities change under gradient descent, by name.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> weights = ss.RandomStart(.1).weights(model, task, seed=0)
    >>> drift = ss.theory.descent_drift(model, task, weights, learning_rate=.1)
    >>> sorted(drift.per_step)
    ['key_query_balance', 'key_value_balance']
    """

    per_step: dict[str, FloatArray]
    """The change in the next step."""
    per_time: dict[str, FloatArray]
    """The same over the flow time that a step takes."""


def conserved_quantities(model: AbstractAttention, weights: GivenWeights) -> Weights:
    r"""The quantities that gradient flow keeps, on any data (T14; Z eq. 79, 85).

    Merged: $v v^\top - (\langle U_i, U_j\rangle)_{ij}$. Separate: $\|k_{i,r}\|^2 - \|q_{i,r}\|^2$
    and $\sum_r\|k_{i,r}\|^2 - v_i^2$. `weights` are those of one seed.

    >>> import numpy as np
    >>> from saddlescope.attention import SeparateAttention
    >>> start = {"v": np.array([2.]), "k": np.array([[[3., 0.]]]), "q": np.array([[[0., 1.]]])}
    >>> balances = conserved_quantities(SeparateAttention(heads=1), start)
    >>> balances["key_query_balance"].tolist(), balances["key_value_balance"].tolist()
    ([[8.0]], [5.0])
    """
    check_part("model", model)
    axes = model.axes
    if not isinstance(weights, Mapping) or set(weights) != set(axes):
        got = sorted(weights) if isinstance(weights, Mapping) else weights
        raise InvalidInput("weights", got, f"must name {', '.join(axes)}")
    arrays = {}
    for name, own in axes.items():
        shape = tuple(model.heads if axis == "head" else None for axis in own)
        arrays[name] = real_array(f"weights[{name!r}]", weights[name], shape)
    return model.conserved(arrays)


def descent_drift(
    model: AbstractAttention, task: object, weights: GivenWeights, learning_rate: float
) -> DescentDrift:
    r"""How a step of gradient descent on the population changes the conserved quantities (T14).

    They are quadratic in the weights and flow keeps them, so that a step $2\eta\dot w$ changes
    each by $Q(w + 2\eta\dot w) - Q(w) = (2\eta)^2 Q(\dot w)$ exactly, with
    $\dot w = -\frac12\partial L/\partial w$ of T3; in time, $\dot Q = 2\eta\,Q(\dot w)$.

    >>> from saddlescope.attention import RandomStart, SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> drift = descent_drift(model, task, RandomStart(.1).weights(model, task, seed=0), .02)
    >>> sorted(drift.per_step)
    ['key_query_balance', 'key_value_balance']
    """
    law = population_law(task)
    rate = number("learning_rate", learning_rate, above=0.0)
    linear, checked = summarised_model(model), one_seed(model, weights, law.dimension)
    gain = model.gain(law.fixed_length)
    force = law.moments().force(linear.effective_map(checked, gain))
    speed = linear.conserved(linear.pull_back(checked, gain * force))
    step_time = 2 * rate * model.time_unit(gain)
    with np.errstate(over="ignore", invalid="ignore"):
        per_step = {name: 2 * rate * (2 * rate * value) for name, value in speed.items()}
    if not all(np.isfinite(change).all() for change in per_step.values()):
        raise InvalidInput("learning_rate", learning_rate, "takes the drift beyond float64")
    return DescentDrift(per_step, {name: value / step_time for name, value in per_step.items()})
