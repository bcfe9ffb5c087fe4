"""One step of Tsitouras' method in lanes: its stages, error and interpolation."""

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

# Errors and step sizes need few digits; float64 roots and logarithms make long programs.
COARSE = jnp.float32
# Stages in one iteration of the loop. On an H200, with D = 4, H = 5 and drops noted, 2, 3 and 6 of
# them gave 88, 115 and 144 thousand starts a second, compiled in 14, 21 and 75 seconds.
_UNROLLED = 3

Vector: TypeAlias = Sequence[Lane]


def stiffness(
    block: Block, width: Lane, points: tuple[Vector, Vector], slopes: list[list[Lane]]
) -> Lane:
    """h|λ|: the width of a step times the dominant rate λ.

    The last two stages are both at the step's end; their slopes differ by λ times their distance.
    """
    last, after = points
    distance = squares(block, _coarse_difference(after, last))
    change = squares(block, _coarse_difference(slopes[-1], slopes[-2]))
    stiffness = width.astype(COARSE) * jnp.sqrt(change / jnp.where(distance > 0, distance, 1.0))
    return jnp.where(stiffness < jnp.inf, stiffness, 0.0)


def stages(
    landscape: Landscape, start: list[Lane], slope: list[Lane], width: Lane
) -> tuple[list[list[Lane]], list[Lane], list[Lane], Matrix]:
    """The slopes at all stages of a step, the points of the last two stages, and W at its end.

    A loop takes `_UNROLLED` stages at a time, with zero coefficients for slopes still to come.
    """
    iterations = len(STAGES) // _UNROLLED

    def coefficient(iteration: Array, first: int, number: int) -> Array:
        value = jnp.zeros((), width.dtype)
        for at, row in enumerate(STAGES[first::_UNROLLED]):
            if number < len(row):
                value = jnp.where(iteration == at, jnp.asarray(row[number], width.dtype), value)
        return value

    def take_stages(iteration: Array, carry: PyTree[Array]) -> PyTree[Array]:
        slopes, _, point, effective_map = carry
        slopes = list(slopes)
        for stage in range(_UNROLLED):
            known = slopes[: 1 + stage + _UNROLLED * (iterations - 1)]
            row = [coefficient(iteration, stage, number) for number in range(len(known))]
            last, point = point, _combined(start, width, row, known)
            effective_map = landscape.effective_map(point)
            new = landscape.velocity(point, effective_map)
            for at in range(iterations):
                number = 1 + stage + _UNROLLED * at
                pairs = zip(new, slopes[number], strict=True)
                slopes[number] = [jnp.where(iteration == at, a, b) for a, b in pairs]
        return slopes, last, point, effective_map

    unknown = [[width] * landscape.heads.dimension] * landscape.heads.dimension
    begun = [slope] * (1 + len(STAGES)), start, start, unknown
    slopes, last, end, effective_map = jax.lax.fori_loop(0, iterations, take_stages, begun)
    return slopes, last, end, effective_map


def _combined(
    start: Vector, width: Lane, coefficients: Sequence[Lane], slopes: Sequence[Vector]
) -> list[Lane]:
    """The start, moved by a linear combination of slopes."""
    return [
        entry + width * sum(c * slope for c, slope in zip(coefficients, stages, strict=True))
        for entry, *stages in zip(start, *slopes, strict=True)
    ]


def _coarse_difference(left: Vector, right: Vector) -> list[Lane]:
    """The difference of two vectors, in `COARSE` precision."""
    return [(a - b).astype(COARSE) for a, b in zip(left, right, strict=True)]


def squares(block: Block, vector: Vector) -> Lane:
    """The sum of squares over a trajectory's lanes."""
    squares = [entry * entry for entry in vector]
    return block.total(sum(squares[1:], squares[0]))


def error(
    block: Block,
    before: Vector,
    after: Vector,
    width: Lane,
    slopes: list[list[Lane]],
    control: tuple[Lane, Lane, Lane],
) -> Lane:
    """The root mean square of a step's error, in units of the tolerance."""
    rtol, atol, size = (value.astype(COARSE) for value in control)
    scaled = []
    for old, new, *stages in zip(before, after, *slopes, strict=True):
        largest = jnp.maximum(jnp.abs(old), jnp.abs(new)).astype(COARSE)
        allowed = atol + rtol * largest
        scaled.append((width * combine(ERROR, list(stages))).astype(COARSE) / allowed)
    return jnp.sqrt(squares(block, scaled) / size)


def interpolation(at: Lane) -> tuple[Lane, ...]:
    """The coefficient of each slope at a share of the step (Tsitouras 2011)."""
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
