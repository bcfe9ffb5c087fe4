"""Through the rests of the race by quadrature: all maps but those of winners are small (T18)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.courses.head import half_way_lead
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._heads import split_rows
from saddlescope.theory.staircase._order import Order
from saddlescope.theory.staircase._particle import Particles
from saddlescope.theory.staircase._pickup import rise_beside
from saddlescope.theory.staircase._standing import Standing
from saddlescope.theory.staircase._ways import Ways

# A rest ends where a head's map has come to this share of what it will be.
_FELT = 1e-5


def _split(rows: FloatArray, pairs: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values `[H, S]`, and sums and differences of keys and queries, `[H, S, R, D]`."""
    value, *pair = split_rows(rows, pairs)
    keys, queries = (np.moveaxis(part, 3, 1) for part in pair)
    return value, keys + queries, keys - queries


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


def half_way_times(standing: Standing, rows: FloatArray) -> FloatArray:
    """How long until each head would be half-way down along the strongest mode left, `[H, S]`.

    Infinite of winners that have no room, and where no mode is left.
    """
    modes, order = standing.modes, standing.order
    value, sums, differences = _upright(standing, rows)
    racing, beside = order.racing, order.moving & standing.has_room()
    drives = _drives(modes, order)
    mode = drives.argmax(1)
    strength = drives.max(1)
    times = np.full(racing.shape, np.inf)
    every = np.broadcast_to(drives, (len(racing), *drives.shape))
    own, _ = Particles.of_pairs(value[racing], sums[racing], differences[racing], every[racing])
    lead = np.broadcast_to(half_way_lead() * modes.rise_time[mode], racing.shape)
    times[racing] = Ways.of(own).runaway - lead[racing]
    free, _ = _apart(sums[beside], order.held.transpose(0, 2, 1)[beside])
    seed = np.nonzero(beside)[1]
    size = value[beside] * (free[np.arange(len(free)), :, mode[seed]] ** 2).sum(1) / 4
    held = (order.held * modes.amplitude[:, None]).sum(1)[beside]
    known = (size > 0) & (strength[seed] > 0)
    rises = rise_beside(
        held[known], size[known], strength[seed][known], modes.amplitude[mode[seed]][known]
    )
    waits = np.full(len(free), np.inf)
    waits[known] = rises.half
    times[beside] = waits
    return np.where(strength > 0, times, np.inf)


def _upright(standing: Standing, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, sums and differences, those of winners with their values above zero."""
    value, sums, differences = (part.copy() for part in _split(rows, standing.pairs))
    # A head is the same with its value and its queries turned round.
    turned = standing.order.moving & (value < 0)
    sums[turned], differences[turned] = differences[turned], sums[turned]
    value[turned] *= -1
    return value, sums, differences


def skip(standing: Standing, rows: FloatArray, most: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How long each seed rests, at most so long, and all its heads after that."""
    modes, order = standing.modes, standing.order
    value, sums, differences = _upright(standing, rows)
    racing, beside = order.racing, order.moving
    every = np.broadcast_to(_drives(modes, order), (len(racing), *order.given.T.shape))
    own, sign = Particles.of_pairs(value[racing], sums[racing], differences[racing], every[racing])
    ways = Ways.of(own)
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
    # What has nothing to grow from stays so, however long it rests.
    free_sums = sums - held_back
    with np.errstate(invalid="ignore"):
        sums = np.where(free_sums == 0, 0.0, free_sums * grown) + held_back
    differences = differences / grown
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
