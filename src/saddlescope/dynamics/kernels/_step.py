"""One step of Tsitouras' method in lanes: its stages, its error, and what lies inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from saddlescope.dynamics.kernels._heads import Matrix
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Lane
from saddlescope.dynamics.methods._solver import ERROR, STAGES, combine

# Errors and step sizes need few digits, and roots and logarithms of many are long programs.
COARSE = jnp.float32
# Stages that a turn of the loop takes. On an H200, with D = 4, H = 5 and drops found on the way, 2,
# 3 and 6 of them gave 88, 115 and 144 thousand starts a second, compiled in 14, 21 and 75 seconds.
_TOGETHER = 3

Vector: TypeAlias = Sequence[Lane]


def stretch(
    block: Block, width: Lane, places: tuple[Vector, Vector], slopes: list[list[Lane]]
) -> Lane:
    """The width of a step times the steepness λ that it met.

    Both last stages are at the step's end: their slopes differ by λ times what they do.
    """
    last, after = places
    apart = squares(block, _coarse(after, last))
    turned = squares(block, _coarse(slopes[-1], slopes[-2]))
    stretch = width.astype(COARSE) * jnp.sqrt(turned / jnp.where(apart > 0, apart, 1.0))
    return jnp.where(stretch < jnp.inf, stretch, 0.0)


def stages(
    landscape: Landscape, start: list[Lane], slope: list[Lane], width: Lane
) -> tuple[list[list[Lane]], list[Lane], list[Lane], Matrix]:
    """The slopes at all stages of a step, where the last two stages stand, and W at its end.

    A loop takes some in a turn, with coefficients of zero for the slopes to come.
    """
    turns = len(STAGES) // _TOGETHER

    def coefficient(turn: Array, first: int, number: int) -> Array:
        chosen = jnp.zeros((), width.dtype)
        for own, row in enumerate(STAGES[first::_TOGETHER]):
            if number < len(row):
                chosen = jnp.where(turn == own, jnp.asarray(row[number], width.dtype), chosen)
        return chosen

    def some(turn: Array, carry: PyTree[Array]) -> PyTree[Array]:
        slopes, _, place, effective_map = carry
        slopes = list(slopes)
        for stage in range(_TOGETHER):
            known = slopes[: 1 + stage + _TOGETHER * (turns - 1)]
            row = [coefficient(turn, stage, number) for number in range(len(known))]
            last, place = place, _combined(start, width, row, known)
            effective_map = landscape.effective_map(place)
            new = landscape.velocity(place, effective_map)
            for own in range(turns):
                number = 1 + stage + _TOGETHER * own
                pairs = zip(new, slopes[number], strict=True)
                slopes[number] = [jnp.where(turn == own, a, b) for a, b in pairs]
        return slopes, last, place, effective_map

    unknown = [[width] * landscape.heads.dimension] * landscape.heads.dimension
    begun = [slope] * (1 + len(STAGES)), start, start, unknown
    slopes, last, end, effective_map = jax.lax.fori_loop(0, turns, some, begun)
    return slopes, last, end, effective_map


def _combined(
    start: Vector, width: Lane, coefficients: Sequence[Lane], slopes: Sequence[Vector]
) -> list[Lane]:
    """The start, moved by so much of every slope."""
    return [
        one + width * sum(c * slope for c, slope in zip(coefficients, own, strict=True))
        for one, *own in zip(start, *slopes, strict=True)
    ]


def _coarse(one: Vector, other: Vector) -> list[Lane]:
    """The difference of two vectors, in few digits."""
    return [(a - b).astype(COARSE) for a, b in zip(one, other, strict=True)]


def squares(block: Block, vector: Vector) -> Lane:
    """The sum of squares over a trajectory's lanes."""
    squares = [one * one for one in vector]
    return block.total(sum(squares[1:], squares[0]))


def error(
    block: Block,
    before: Vector,
    after: Vector,
    width: Lane,
    slopes: list[list[Lane]],
    control: tuple[Lane, Lane, Lane],
) -> Lane:
    """The root mean square of a step's error, in units of what it may be off by."""
    rtol, atol, size = (one.astype(COARSE) for one in control)
    scaled = []
    for one, other, *own in zip(before, after, *slopes, strict=True):
        largest = jnp.maximum(jnp.abs(one), jnp.abs(other)).astype(COARSE)
        allowed = atol + rtol * largest
        scaled.append((width * combine(ERROR, list(own))).astype(COARSE) / allowed)
    return jnp.sqrt(squares(block, scaled) / size)


def interpolation(at: Lane) -> tuple[Lane, ...]:
    """How much of each slope there is at a share of the step (Tsitouras 2011)."""
    square = at * at
    return (
        -1.0530884977290216
        * at
        * (at - 1.3299890189751412)
        * (square - 1.4364028541716351 * at + 0.7139816917074209),
        0.1017 * square * (square - 2.1966568338249754 * at + 1.2949852507374631),
        2.490627285651252793 * square * (square - 2.38535645472061657 * at + 1.57803468208092486),
        -16.54810288924490272 * (at - 1.21712927295533244) * (at - 0.61620406037800089) * square,
        47.37952196281928122 * (at - 1.203071208372362603) * (at - 0.658047292653547382) * square,
        -34.87065786149660974 * (at - 1.2) * (at - 0.666666666666666667) * square,
        2.5 * (at - 1) * (at - 0.6) * square,
    )
