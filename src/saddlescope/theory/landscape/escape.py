"""The ways out of a strict saddle (T16, T17, T19)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention, AbstractLinearAttention, Weights
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.theory.landscape._fixed_points import minimal_norm_weights
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.landscape._singular_modes import any_modes
from saddlescope.theory.landscape._weight_loss import named_weights
from saddlescope.theory.landscape.index import NEGLIGIBLE, hessian
from saddlescope.theory.parametrisation import (
    is_merged,
    linear_model,
    normalised_weights,
    population_law,
)


@dataclass(frozen=True, eq=False, repr=False)
class EscapeDirection(BriefRepr):
    """A direction in weight space along which gradient flow leaves a strict saddle.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> way = ss.theory.escape_direction(model, task, subset=[1])  # learned out of order
    >>> way.learned, way.towards
    (1, 0)
    """

    head: int
    """The head that moves; the one that moves most where several do."""
    learned: int | None
    """The eigenvector that it gives up; None where a free pair of it grows, where it is zero, or
    where covariances do not commute, so that several heads turn at once."""
    towards: int | None
    """The eigenvector that it turns to; None for merged attention, which turns to all at once, and
    where covariances do not commute."""
    rate: float
    """The growth rate of the distance from the saddle, in flow time."""
    weights: Weights
    """The direction itself, of length one."""


def escape_directions(
    model: AbstractAttention, task: object, subset: Iterable[int]
) -> tuple[EscapeDirection, ...]:
    r"""All ways out of the minimal-norm weights of M(S) at second order, the fastest first (T16).

    A head of value v on i that turns to $d \notin S$ moves its key by x and its query by y along
    $e_d$, $\dot x = v(c_d y - b_d\kappa_i\xi_i x)$, $\dot y = v(c_d x - b_i\kappa_d\xi_i y)$, which
    grows exactly when $\Delta_d > \Delta_i$. A free pair of a head in use grows at $v c_d$. Where
    covariances do not commute the heads turn together: the ways out are then the eigenvectors of
    the Hessian that lead down, as many as the index says (T19; D up to 8). Merged attention leaves
    zero at $\|\Lambda\Sigma_w\Lambda_q\|_F$, every head alike. Empty at the in-order points of
    rank one.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> [(way.learned, way.towards) for way in escape_directions(model, task, [1])]
    [(1, 0)]
    """
    task_modes = any_modes(task)
    members = task_modes.subset(subset)
    weights = minimal_norm_weights(model, task, members)
    ways: list[EscapeDirection] = []
    if is_merged(model):
        ways = _leave_zero(model, task) if not members else []
    elif isinstance(task_modes, Modes):
        at = normalised_weights(model, task, weights)
        for head in np.flatnonzero(at["v"]):
            for pair in range(at["k"].shape[1]):
                ways += _turn_or_grow(linear_model(model), task_modes, members, at, int(head), pair)
    else:
        ways = _lead_down(model, task, weights)
    return tuple(sorted(ways, key=lambda way: -way.rate))


def escape_direction(
    model: AbstractAttention, task: object, subset: Iterable[int]
) -> EscapeDirection:
    """The fastest of `escape_directions`.

    Strict saddles are those of T16.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> round(escape_direction(model, task, [1]).rate, 4)
    0.0324
    """
    members = any_modes(task).subset(subset)
    ways = escape_directions(model, task, members)
    if not ways:
        raise TheoryDoesNotApply(
            f"M({set(members) or '∅'}) has index 0: nothing leads down from it at second order; "
            "flow leaves it through a head that is still zero, at the third order of T12 "
            "(head_time_course, predict_staircase), unless it is the minimum"
        )
    return ways[0]


def _leave_zero(model: AbstractAttention, task: object) -> list[EscapeDirection]:
    drive = population_law(task).moments().drive
    rate = float(np.linalg.norm(drive))
    if rate == 0:
        return []
    ways = []
    for head in range(model.heads):
        v, u = np.zeros(model.heads), np.zeros((model.heads, *drive.shape))
        v[head], u[head] = np.sqrt(0.5), drive / rate * np.sqrt(0.5)
        weights = linear_model(model).from_attention({"v": v, "U": u})
        ways.append(EscapeDirection(head, None, None, rate, weights))
    return ways


def _lead_down(model: AbstractAttention, task: object, at: Weights) -> list[EscapeDirection]:
    """The eigenvectors of the Hessian whose eigenvalues are negative, as directions of weights."""
    law = population_law(task)
    curvatures, vectors = np.linalg.eigh(hessian(model, task, at))
    negative = curvatures < -NEGLIGIBLE * np.abs(curvatures).max(initial=0.0)
    # Flow descends half of the loss.
    unit = 2 * model.time_unit(model.gain(law.fixed_length))
    ways = []
    for curvature, vector in zip(curvatures[negative], vectors.T[negative], strict=True):
        weights = named_weights(model, law.dimension, vector)
        moved = sum((part**2).reshape(model.heads, -1).sum(1) for part in weights.values())
        head = int(np.argmax(moved))
        ways.append(EscapeDirection(head, None, None, float(-curvature / unit), weights))
    return ways


def _turn_or_grow(
    linear: AbstractLinearAttention,
    modes: Modes,
    members: tuple[int, ...],
    at: Weights,
    head: int,
    pair: int,
) -> list[EscapeDirection]:
    """The ways out that move one key–query pair of a head that is in use."""
    along = np.abs(at["k"][head, pair] @ modes.basis)
    learned = int(along.argmax()) if along.any() else None
    amplitude = 0.0 if learned is None else float(modes.amplitude[learned])
    ways = []
    held = 0 if learned is None else learned
    for towards in modes.order:
        if towards in members:
            continue
        if learned is not None and modes.drop_ranks[towards] >= modes.drop_ranks[learned]:
            continue
        on_key = modes.summary[towards] * modes.query_eigenvalues[held] * amplitude
        on_query = modes.summary[held] * modes.query_eigenvalues[towards] * amplitude
        drive = modes.drive[towards]
        speed = np.hypot((on_key - on_query) / 2, drive) - (on_key + on_query) / 2
        direction = {name: np.zeros_like(array) for name, array in at.items()}
        key, query = np.array([drive, speed + on_key]) / np.hypot(drive, speed + on_key)
        direction["k"][head, pair] = key * modes.basis[:, towards]
        direction["q"][head, pair] = query * modes.basis[:, towards]
        rate, weights = float(at["v"][head]) * float(speed), linear.from_attention(direction)
        ways.append(EscapeDirection(head, learned, int(towards), rate, weights))
    return ways
