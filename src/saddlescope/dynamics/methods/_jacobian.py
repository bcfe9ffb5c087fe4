r"""Linear solves with the Jacobian of the flow: dense, or head by head with a shared correction.

A head's velocity depends on its own weights and, only through the force on the coefficients, on
those of the other heads (T3). Let $E_h$ be the derivative of the coefficients with respect to the
weights of head h, $R$ that of the force with respect to the coefficients, and $J_h$ that of the
head's velocity with respect to its own weights at a fixed force. Then
$J = \mathrm{diag}(J_h) + E^\top R E$, and with $A = \mathrm{diag}(s - J_h)$ and
$S = E A^{-1} E^\top$ (Woodbury),
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
from saddlescope.dynamics.methods._ensemble import is_on_cpu
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.risk import Force

# Operations of a batch of inverses that LAPACK is sure to take one after another.
_MOST_IN_BATCH = 1e5

Solve: TypeAlias = Callable[[Float[Array, " n"]], Float[Array, " n"]]
"""Maps b to the solution x of (s − J) x = b."""


def solve_shifted(problem: Problem, at: Float[Array, " n"], shift: Float[Array, ""]) -> Solve:
    """A solver for s − J, where J is the Jacobian of the flow at the weights `at`.

    A singular matrix gives non-finite results.
    """
    layout = problem.layout
    force = problem.risk.force(problem.model, layout.unpack(at), problem.pace)
    if force is None or not _is_by_heads(problem.model, layout):
        return solve_whole(lambda y: problem.velocity(y, problem.pace), at, shift)
    return _solve_by_heads(layout, force, at, shift)


def products(model: AbstractAttention, layout: Layout) -> float:
    """Roughly how many multiplications it takes to prepare a solve."""
    return min(_products(model, layout))


def solve_whole(
    field: Callable[[Float[Array, " n"]], Float[Array, " n"]],
    at: Float[Array, " n"],
    shift: Float[Array, ""],
) -> Solve:
    """A solver for s − J, where J is the Jacobian of any field, by one LU factorisation."""
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
    """A solver for s − J by Woodbury's formula.

    The matrices are inverted once; each of the eight stages of a step is then a few products.
    """
    indices = layout.head_indices
    heads, per_head = indices.shape
    order = np.argsort(indices, axis=None)
    shape, count = force.value.shape, force.value.size

    def pull_back(vector: Float[Array, " n"], value: Array) -> Float[Array, "H m"]:
        moved: Float[Array, " n"] = layout.pack(force.pull_back(layout.unpack(vector), value))
        return moved[indices]

    def block_column(unit: Float[Array, " m"]) -> Float[Array, "H m"]:
        # One weight of every head at once: heads do not depend on one another here.
        tangent = jnp.tile(unit, heads)[order]
        return jax.jvp(lambda vector: pull_back(vector, force.value), (at,), (tangent,))[1]

    def respond(change: Float[Array, " F"]) -> Float[Array, " F"]:
        return force.response(change.reshape(shape)).reshape(-1)

    unit_weights, units = (jnp.eye(size, dtype=at.dtype) for size in (per_head, count))
    blocks = jax.vmap(block_column, out_axes=-1)(unit_weights)
    # The rows of E: what a unit of force on each coefficient does to the heads.
    lift = jax.vmap(lambda unit: pull_back(at, unit.reshape(shape)), out_axes=1)(units)
    inverse = _inverses((shift * unit_weights)[None] - blocks)
    # J is symmetric, so E A⁻¹ is the transpose of A⁻¹ Eᵀ.
    spread, lift = (
        jnp.swapaxes(rows, 0, 1).reshape(count, heads * per_head) for rows in (lift @ inverse, lift)
    )
    shared = jnp.linalg.inv(units - jax.vmap(respond, in_axes=1, out_axes=1)(spread @ lift.T))

    def solve(vector: Float[Array, " n"]) -> Float[Array, " n"]:
        sides = vector[indices]
        solved = (inverse * sides[:, None, :]).sum(-1).reshape(-1)
        change = shared @ respond(spread @ sides.reshape(-1))
        solved = solved + change @ spread
        # Where s is small beside the stiff part, that part is the difference of two large terms.
        # One step of refinement, by the change of the force that it implies.
        solved = solved + (shared @ (respond(lift @ solved) - change)) @ spread
        return solved[order]

    return solve


def _inverses(matrices: Float[Array, "H m m"]) -> Float[Array, "H m m"]:
    """The inverse of each matrix.

    JAX's LAPACK spreads a batch of more than 2e5 operations over XLA's threads and waits for them
    on the one that runs the program. With a program on every thread, a shard on every core, all of
    them wait for ever. So large matrices are inverted one by one.
    """
    heads, size, _ = matrices.shape
    if is_on_cpu() and heads * size**3 > _MOST_IN_BATCH:
        return jax.lax.map(jnp.linalg.inv, matrices)
    return jnp.linalg.inv(matrices)


def _is_by_heads(model: AbstractAttention, layout: Layout) -> bool:
    by_heads, whole = _products(model, layout)
    return by_heads < whole


@lru_cache(maxsize=256)
def _products(model: AbstractAttention, layout: Layout) -> tuple[float, float]:
    """Multiplications for a step's matrices, by heads and dense.

    Measured on one core, in microseconds a step, by heads and dense: heads of rank one 27 and 30
    (D = 3, H = 4), 47 and 60 (D = 4, H = 5), 68 and 229 (D = 4, H = 9), 570 and 2000 (D = 8,
    H = 17); eight merged heads 120 and 313 (D = 4), 1700 and 6000 (D = 8); all blocks 244 and 602
    (eight merged heads, D = 3), but 555 and 364 (five heads of rank one, D = 4).
    """
    weights = layout.size
    if not model.sums_heads:
        return math.inf, 2 / 3 * weights**3
    assert isinstance(model, AbstractLinearAttention)
    named = {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in layout.shapes}
    count = math.prod(jax.eval_shape(model.coefficients, named).shape)
    per_head = layout.head_indices.shape[1]
    blocks = 2 * weights * per_head**2
    through_map = 2 * weights * count * (per_head + count)
    return blocks + through_map + 8 / 3 * count**3, 2 / 3 * weights**3 + 2 * weights * count**2
