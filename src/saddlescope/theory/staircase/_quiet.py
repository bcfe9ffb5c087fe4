"""Through the rests of the race by quadrature: all maps but those of winners are small (T18)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._heads import Order
from saddlescope.theory.staircase._particle import Particles

# A rest ends where a head's map has come to this share of what it will be.
_FELT = 1e-5


def _split(rows: FloatArray, pairs: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values `[H, S]`, and sums and differences of keys and queries, `[H, S, R, D]`."""
    heads, size, seeds = rows.shape
    middle = (size + 1) // 2
    keys, queries = (
        np.moveaxis(part.reshape(heads, pairs, -1, seeds), 3, 1)
        for part in (rows[:, 1:middle], rows[:, middle:])
    )
    return rows[:, 0], keys + queries, keys - queries


def _join(value: FloatArray, sums: FloatArray, differences: FloatArray) -> FloatArray:
    heads, seeds = value.shape
    keys, queries = (
        np.moveaxis(part, 1, 3).reshape(heads, -1, seeds)
        for part in ((sums + differences) / 2, (sums - differences) / 2)
    )
    return np.concatenate([value[:, None], keys, queries], axis=1)


def _drives(modes: Modes, order: Order) -> Float[np.ndarray, "S D"]:
    """The drives of the modes that nobody holds."""
    return np.where(order.given, 0.0, modes.drive[:, None]).T


def _particles(
    value: FloatArray, sums: FloatArray, differences: FloatArray, drive: FloatArray
) -> tuple[Particles, FloatArray]:
    """Heads `[n]` as they move towards greater θ, and the sign of θ that this is."""
    rising, falling = (sums**2).sum(1) / 4, (differences**2).sum(1) / 4
    # One that is at rest begins to move as the drive pulls it.
    pull = (drive * (rising - falling)).sum(1)
    forward = np.where(value == 0, pull >= 0, value > 0)[:, None]
    ahead, behind = np.where(forward, rising, falling), np.where(forward, falling, rising)
    return Particles.of(np.abs(value), ahead, behind, drive), np.where(forward[:, 0], 1.0, -1.0)


def runaways(modes: Modes, pairs: int, order: Order, rows: FloatArray) -> FloatArray:
    """When each head that has won nothing would run away, `[H, S]`; infinite of the others."""
    value, sums, differences = _split(rows, pairs)
    racing = order.racing
    times = np.full(racing.shape, np.inf)
    drive = np.broadcast_to(_drives(modes, order), (len(racing), *order.given.T.shape))[racing]
    own, _ = _particles(value[racing], sums[racing], differences[racing], drive)
    times[racing] = own.ways().runaway
    return times


def skip(
    modes: Modes, pairs: int, order: Order, rows: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How long each seed rests, at most so long, and all its heads after that."""
    value, sums, differences = (part.copy() for part in _split(rows, pairs))
    racing, beside = order.racing, order.moving
    # A head is the same with its value and its queries turned round.
    turned = beside & (value < 0)
    sums[turned], differences[turned] = differences[turned], sums[turned]
    value[turned] *= -1
    every = np.broadcast_to(_drives(modes, order), (len(racing), *order.given.T.shape))
    own, sign = _particles(value[racing], sums[racing], differences[racing], every[racing])
    ways = own.ways()
    wait = np.full(racing.shape, np.inf)
    # Near its end a head's value is 1/(c(t* − t)), and its map the cube of that.
    lead = (every * np.cbrt(modes.amplitude)).max(2)[racing]
    wait[racing] = ways.runaway - 1 / (np.cbrt(_FELT) * lead)
    free, taken = _apart(sums[beside], order.held.transpose(0, 2, 1)[beside])
    size = value[beside][:, None] * (free**2).sum(1) / 4
    rate = 2 * value[beside][:, None] * every[beside]
    goal = np.log(_FELT * modes.amplitude) - np.log(size)
    wait[beside] = np.where(rate > 0, goal / rate, np.inf).min(1)
    rest = np.clip(wait.min(0), 0.0, most)
    rests = np.broadcast_to(rest, racing.shape)
    away, speed = ways.after(rests[racing])
    theta = np.zeros(racing.shape)
    theta[racing], value[racing] = sign * away, sign * speed
    theta[beside] = (value * rests)[beside]
    grown = np.exp(every * theta[:, :, None])[:, :, None, :]
    held_back = np.zeros_like(sums)
    held_back[beside] = taken
    sums, differences = (sums - held_back) * grown + held_back, differences / grown
    return rest, _join(value, sums, differences)


def _apart(sums: FloatArray, held: AnyArray) -> tuple[FloatArray, FloatArray]:
    """What of heads `[n, R, D]` is free to grow, and what lies along the pairs of held modes."""
    free = sums.copy()
    for mode in range(sums.shape[2]):
        along = np.where(held[:, mode, None], free[:, :, mode], 0.0)
        size = np.sqrt((along**2).sum(1, keepdims=True))
        along = np.divide(along, size, out=np.zeros_like(along), where=size > 0)
        free -= along[:, :, None] * (along[:, :, None] * free).sum(1, keepdims=True)
    return free, sums - free
