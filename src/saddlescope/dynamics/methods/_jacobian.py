r"""Solving with the Jacobian of the flow: as a whole, or by heads and the map that they share.

A head's velocity depends on its own weights and, by way of the force on the coefficients alone, on
those of the others (T3). With $E_h$ the derivative of the coefficients by the weights of head h,
$R$ that of the force by the coefficients, and $J_h$ that of the head's velocity by its own weights
at a given force, the Jacobian is $J = \mathrm{diag}(J_h) + E^\top R E$. With
$A = \mathrm{diag}(s - J_h)$, then, and $S = E A^{-1} E^\top$ (Woodbury),
$$(s - J)^{-1} = A^{-1} + A^{-1} E^\top (1 - R S)^{-1} R\, E A^{-1}.$$
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.risk import Force

Solve: TypeAlias = Callable[[Float[Array, " n"]], Float[Array, " n"]]
"""From b to x in (s − J) x = b."""


def solve_shifted(problem: Problem, at: Float[Array, " n"], shift: Float[Array, ""]) -> Solve:
    """What solves with s − J, where J is the Jacobian of the flow at some weights.

    A matrix that it cannot solve with makes numbers that are not finite.
    """
    layout = problem.layout
    force = problem.risk.force(problem.model, layout.unpack(at), problem.pace)
    if force is None or not _is_by_heads(problem.model, layout):
        return solve_whole(lambda y: problem.velocity(y, problem.pace), at, shift)
    return _solve_by_heads(layout, force, at, shift)


def products(model: AbstractAttention, layout: Layout) -> float:
    """How many products it takes to make ready to solve, roughly."""
    return min(_products(model, layout))


def solve_whole(
    field: Callable[[Float[Array, " n"]], Float[Array, " n"]],
    at: Float[Array, " n"],
    shift: Float[Array, ""],
) -> Solve:
    """What solves with s − J, where J is the Jacobian of any field, as one matrix."""
    matrix = shift * jnp.eye(at.shape[0], dtype=at.dtype) - jax.jacfwd(field)(at)
    factors, _, order = jax.lax.linalg.lu(matrix)

    def solve(vector: Float[Array, " n"]) -> Float[Array, " n"]:
        column = vector[order][:, None]
        for lower in (True, False):
            column = jax.lax.linalg.triangular_solve(
                factors, column, left_side=True, lower=lower, unit_diagonal=lower
            )
        return column[:, 0]

    return solve


def _solve_by_heads(
    layout: Layout, force: Force, at: Float[Array, " n"], shift: Float[Array, ""]
) -> Solve:
    """What solves with s − J by Woodbury's formula.

    Its matrices are inverted once for the eight stages of a step, which are then a few products.
    """
    places = layout.by_head
    heads, own = places.shape
    order = np.argsort(places, axis=None)
    shape, count = force.value.shape, force.value.size

    def pull_back(vector: Float[Array, " n"], value: Array) -> Float[Array, "H m"]:
        moved: Float[Array, " n"] = layout.pack(force.pull_back(layout.unpack(vector), value))
        return moved[places]

    def block_column(unit: Float[Array, " m"]) -> Float[Array, "H m"]:
        # The same weight of every head at once: none depends on another's.
        tangent = jnp.tile(unit, heads)[order]
        return jax.jvp(lambda vector: pull_back(vector, force.value), (at,), (tangent,))[1]

    def respond(change: Float[Array, " F"]) -> Float[Array, " F"]:
        return force.response(change.reshape(shape)).reshape(-1)

    unit_weights, units = (jnp.eye(size, dtype=at.dtype) for size in (own, count))
    blocks = jax.vmap(block_column, out_axes=-1)(unit_weights)
    # Every row of E, by what a unit of force on its coefficient does to the heads.
    lift = jax.vmap(lambda unit: pull_back(at, unit.reshape(shape)), out_axes=1)(units)
    inverse = jnp.linalg.inv((shift * unit_weights)[None] - blocks)
    # J is symmetric: E A⁻¹ is the transpose of A⁻¹ Eᵀ, too.
    spread, lift = (
        jnp.swapaxes(rows, 0, 1).reshape(count, heads * own) for rows in (lift @ inverse, lift)
    )
    shared = jnp.linalg.inv(units - jax.vmap(respond, in_axes=1, out_axes=1)(spread @ lift.T))

    def solve(vector: Float[Array, " n"]) -> Float[Array, " n"]:
        sides = vector[places]
        solved = (inverse * sides[:, None, :]).sum(-1).reshape(-1)
        change = shared @ respond(spread @ sides.reshape(-1))
        solved = solved + change @ spread
        # Where s is small beside the stiff part, that one is what two large terms leave over. The
        # change of the force that follows from it says how wrong it is.
        solved = solved + (shared @ (respond(lift @ solved) - change)) @ spread
        return solved[order]

    return solve


def _is_by_heads(model: AbstractAttention, layout: Layout) -> bool:
    by_heads, whole = _products(model, layout)
    return by_heads < whole


@lru_cache(maxsize=256)
def _products(model: AbstractAttention, layout: Layout) -> tuple[float, float]:
    """What a step's matrices take by heads and as a whole, in products.

    Measured on one core, microseconds a step by heads and as a whole: for heads of rank one, 27
    and 30 (three dimensions, four heads), 47 and 60 (four, five), 68 and 229 (four, nine), 570 and
    2000 (eight, 17); for eight merged heads 120 and 313 (four dimensions), 1700 and 6000 (eight);
    with all blocks 244 and 602 (eight merged heads in three dimensions), but 555 and 364 (five of
    rank one in four).
    """
    weights = layout.size
    if not model.sums_heads:
        return math.inf, 2 / 3 * weights**3
    assert isinstance(model, AbstractLinearAttention)
    named = {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in layout.shapes}
    count = math.prod(jax.eval_shape(model.coefficients, named).shape)
    own = layout.by_head.shape[1]
    blocks = 2 * weights * own**2
    through_map = 2 * weights * count * (own + count)
    return blocks + through_map + 8 / 3 * count**3, 2 / 3 * weights**3 + 2 * weights * count**2
