"""Drop times as integrals: dormant heads, the first drop and the staircase of rank one (T18)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from saddlescope.attention import AbstractAttention
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.precision import in_float64
from saddlescope.running.cores import on_all_cores
from saddlescope.running.programs import compiled
from saddlescope.theory.courses.head import half_way_lead
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.parametrisation import (
    GivenWeights,
    check_blocks,
    is_merged,
    linear_model,
    population_law,
)
from saddlescope.theory.staircase._particle import Particle

# Seeds of one compiled call, and seeds and heads that are worked on together, in the cache.
_MOST_ROWS, _FEWEST_ROWS, _TOGETHER, _HEADS_TOGETHER = 2**13, 2**6, 2**5, 2**8


@dataclass(frozen=True, eq=False)
class DormantStaircase:
    """The drops of every seed, in order of time; infinite where none comes."""

    time: Float[np.ndarray, "*S M"]
    """When the loss is midway down each drop, in flow time."""
    head: Int[np.ndarray, "*S M"]
    """The head that runs away, −1 where none does."""
    direction: Int[np.ndarray, " M"]
    """The eigenvector that is learned: those of the largest drive come first."""
    margin: Float[np.ndarray, "*S M"]
    """How much later the next head would have run away: the race of a small one is open."""


def runaway_times(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, "*S H"]:
    r"""When each head of separate attention runs away from zero, were it alone (T18).

    Exact while all maps are small, at any rank: $t^* = \int d\theta/\sqrt{F(\theta)}$ along the
    head's way, there and back where it turns. Every head runs away in the end, but for a set of
    starts of measure zero. `weights` are those of one seed or have a seed axis in front.

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=1)
    >>> balanced = {"v": [.01], "k": [[[.01, 0]]], "q": [[[.01, 0]]]}
    >>> runaway_times(model, task, balanced).round(3)  # Z eq. 68: 1/(c v)
    array([625.])
    """
    heads = _Heads.of(model, task, weights)
    return heads.shaped(_in_blocks(_runaways, heads, heads.modes.drive))


def first_drop_times(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> Float[np.ndarray, " *S"]:
    r"""When the loss of separate attention of any rank drops first (T18).

    $\min_i t^*_i - \kappa/(c_1\xi_1^{1/3})$ with κ = 1.2533911927, exact as the scale of the start
    falls to zero.
    """
    return runaway_times(model, task, weights).min(axis=-1) - first_drop_delay(model, task)


def first_drop_delay(model: AbstractAttention, task: object) -> float:
    r"""$\kappa/(c_1\xi_1^{1/3})$: how long before the runaway the loss is half-way down (T12)."""
    task_modes = _modes_of(model, task)
    return half_way_lead() * float(_delays(task_modes)[task_modes.order[0]])


def dormant_staircase(
    model: AbstractAttention, task: object, weights: GivenWeights
) -> DormantStaircase:
    r"""Every drop of separate attention of rank one, from a small start (T18).

    The head that runs away first learns the eigenvector of the largest drive that is left, and the
    others feel that this drive is gone from $t^* - 1/(c_d\xi_d^{1/3})$ on. The error is of the
    order of the start's scale w: measured over 24 starts (D = 4, H = 5), 1e-3 in the median and .11
    at worst at w = .01, 5e-5 and 5e-3 at w = .001. `predict_staircase` (T13) is finer at finite w
    and dearer. `weights` are those of one seed or have a seed axis in front.
    """
    heads = _Heads.of(model, task, weights)
    if heads.pairs > 1:
        raise TheoryDoesNotApply(
            f"the quadratures of T18 follow every drop at rank one, and {model!r} has "
            f"{heads.pairs} pairs a head; first_drop_times holds at any rank, and "
            "predict_staircase (T13) has the others"
        )
    heads.modes.require_order("the staircase")
    order = heads.modes.order
    count = min(len(order), heads.value.shape[1])
    found = _in_blocks(_staircases, heads, heads.modes.drive, _delays(heads.modes), order[:count])
    time, head, margin = map(heads.shaped, found)
    return DormantStaircase(time, head, order[:count], margin)


def _modes_of(model: AbstractAttention, task: object) -> Modes:
    """The modes that heads of separate attention grow along."""
    task_modes = modes(task)
    if is_merged(model):
        raise InvalidInput("model", model, "must be separate; for merged attention see time_course")
    if not task_modes.order.size:
        raise TheoryDoesNotApply("nothing drives a head: no mode of the task can be learned")
    return task_modes


def _delays(task_modes: Modes) -> FloatArray:
    r"""$1/(c_d\xi_d^{1/3})$ of every mode, infinite without drive."""
    rate = task_modes.drive * np.cbrt(task_modes.amplitude)
    return np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 0)


@dataclass(frozen=True, eq=False)
class _Heads:
    """Seeds of heads along the modes of a task."""

    modes: Modes
    value: FloatArray
    """v, [S, H]."""
    sums: FloatArray
    """A at θ = 0, [S, H, R, D]."""
    differences: FloatArray
    """B there."""
    has_seeds: bool

    @classmethod
    def of(cls, model: AbstractAttention, task: object, weights: GivenWeights) -> _Heads:
        task_modes = _modes_of(model, task)
        check_blocks(model, task)
        law = population_law(task)
        checked = linear_model(model).check_weights(weights, law.dimension)
        scale = model.gain(law.fixed_length) ** (1 / model.degree)
        name, shape = next(iter(model.shapes(law.dimension).items()))
        has_seeds = checked[name].ndim > len(shape)
        named = linear_model(model).to_attention(
            {key: scale * (array if has_seeds else array[None]) for key, array in checked.items()}
        )
        value, keys, queries = named["v"], *(named[key] @ task_modes.basis for key in "kq")
        return cls(task_modes, value, keys + queries, keys - queries, has_seeds)

    @property
    def pairs(self) -> int:
        """R."""
        return int(self.sums.shape[2])

    def shaped(self, by_head: AnyArray) -> AnyArray:
        """Numbers of every head, without the axis of seeds where there is none."""
        return by_head if self.has_seeds else by_head[0]


_Race: TypeAlias = tuple[Array, Array, Array, Array, Array, Array]
"""The time, of every head v, A and B, the drives that are left, and who is still dormant."""


def _in_blocks(
    function: Callable[..., PyTree], heads: _Heads, *shared: FloatArray | Int[np.ndarray, " M"]
) -> PyTree:
    """Call a compiled function on all seeds, in blocks of one shape, a thread for each core."""
    rows = len(heads.value)
    size = min(max(2 ** math.ceil(math.log2(max(rows, 1))), _FEWEST_ROWS), _MOST_ROWS)
    own = (heads.value, heads.sums, heads.differences)

    def block(first: int) -> PyTree:
        # What a block lacks is filled with its last seed once more.
        places = np.minimum(np.arange(first, first + size), rows - 1)
        return in_float64(function)(*(array[places] for array in own), *shared)

    blocks = on_all_cores(block, range(0, rows, size))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:rows], *blocks)


def _particle(
    value: Float[Array, ""],
    sums: Float[Array, "R D"],
    differences: Float[Array, "R D"],
    drive: Float[Array, " D"],
) -> tuple[Particle, Float[Array, ""]]:
    """A head as it moves towards greater θ, and the sign of θ that this is."""
    rising, falling = (sums**2).sum(0) / 4, (differences**2).sum(0) / 4
    # One that is at rest begins to move as the drive pulls it.
    pull = (drive * (rising - falling)).sum()
    forward = jnp.where(value == 0, pull >= 0, value > 0)
    ahead, behind = (
        jnp.where(forward, one, other) for one, other in ((rising, falling), (falling, rising))
    )
    return Particle.of(jnp.abs(value), ahead, behind, drive), jnp.where(forward, 1.0, -1.0)


@compiled
def _runaways(
    value: Float[Array, "S H"],
    sums: Float[Array, "S H R D"],
    differences: Float[Array, "S H R D"],
    drive: Float[Array, " D"],
) -> Float[Array, "S H"]:
    def one(head: tuple[Array, Array, Array]) -> Float[Array, ""]:
        particle, _ = _particle(*head, drive)
        return particle.runaway(particle.panels())

    heads = value.size
    flat = value.reshape(heads), *(x.reshape(heads, *x.shape[2:]) for x in (sums, differences))
    return jax.lax.map(one, flat, batch_size=_HEADS_TOGETHER).reshape(value.shape)


@compiled
def _staircases(
    value: Float[Array, "S H"],
    sums: Float[Array, "S H R D"],
    differences: Float[Array, "S H R D"],
    drive: Float[Array, " D"],
    delays: Float[Array, " D"],
    order: Int[Array, " M"],
) -> tuple[Float[Array, "S M"], Int[Array, "S M"], Float[Array, "S M"]]:
    def one(seed: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        def drop(state: _Race, mode: Int[Array, ""]) -> tuple[_Race, tuple[Array, Array, Array]]:
            now, value, sums, differences, drive, dormant = state
            particles, signs = jax.vmap(_particle, in_axes=(0, 0, 0, None))(
                value, sums, differences, drive
            )
            panels = jax.vmap(Particle.panels)(particles)
            left = jnp.where(dormant, jax.vmap(Particle.runaway)(particles, panels), jnp.inf)
            first = jnp.argmin(left)
            second = jnp.where(jnp.arange(left.size) == first, jnp.inf, left).min()
            soonest = left[first]
            # The others feel it from here on.
            wait = jnp.maximum(soonest - delays[mode], 0.0)
            theta, speed = jax.vmap(Particle.after, in_axes=(0, None, 0))(particles, wait, panels)
            theta, speed = signs * theta, signs * speed
            grown = jnp.exp(drive[None, None] * theta[:, None, None])
            came = jnp.isfinite(soonest)
            moved = (
                now + wait,
                speed,
                sums * grown,
                differences / grown,
                drive.at[mode].set(0.0),
                dormant.at[first].set(False),
            )
            state = jax.tree.map(lambda new, old: jnp.where(came, new, old), moved, state)
            time = now + soonest - half_way_lead() * delays[mode]
            return state, (time, jnp.where(came, first, -1), second - soonest)

        value, sums, differences = seed
        begin = (jnp.asarray(0.0), value, sums, differences, drive, jnp.full(value.shape, True))
        return jax.lax.scan(drop, begin, order)[1]

    return jax.lax.map(one, (value, sums, differences), batch_size=_TOGETHER)
