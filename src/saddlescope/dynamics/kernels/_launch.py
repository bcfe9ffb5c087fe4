"""Running a kernel over all trajectories of a state, which it changes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Int

from saddlescope.dynamics.kernels._lanes import Block, Ref
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._problem import AbstractState, Problem

State = TypeVar("State", bound=AbstractState | tuple[AbstractState, object])

# A block counts its steps in 32 bits.
_MOST_STEPS = 2**30


def launch(
    body: Callable[[Problem, State, Block, Int[Array, ""]], None],
    problem: Problem,
    state: State,
    budget: Int[Array, ""],
) -> State:
    """The state after `body` has run for every block of its trajectories.

    `body(problem, state, block, budget)` finds the problem's and the state's arrays in memory, with
    an axis of trajectories in front, of one where all share them, and writes into the state's.
    """
    kernel = problem.kernel
    assert isinstance(kernel, Kernel)
    rows = jax.tree.leaves(state)[0].shape[0]
    numbers = problem
    if not problem.has_rows:
        numbers = jax.tree.map(lambda leaf: leaf[None], problem)
    given, form = jax.tree.flatten(numbers)
    leaves, structure = jax.tree.flatten(state)
    # Records of no weights are an array of no size, which has no place in memory.
    written = [place for place, leaf in enumerate(leaves) if leaf.size]
    steps = jnp.minimum(budget, _MOST_STEPS).astype(jnp.int32)[None]

    def run(*refs: Ref) -> None:
        inputs, outputs = refs[: 1 + len(given)], refs[1 + len(given) + len(written) :]
        own = list(leaves)
        for place, ref in zip(written, outputs, strict=True):
            own[place] = ref
        body(
            jax.tree.unflatten(form, inputs[1:]),
            jax.tree.unflatten(structure, own),
            Block.here(kernel, problem.layout, rows),
            inputs[0][0],
        )

    parameters = triton.CompilerParams(num_warps=kernel.warps, num_stages=1)
    moved = pl.pallas_call(
        run,
        grid=(-(-rows // kernel.block),),
        out_shape=[jax.ShapeDtypeStruct(leaves[at].shape, leaves[at].dtype) for at in written],
        input_output_aliases={1 + len(given) + at: at for at in range(len(written))},
        compiler_params=parameters,
        interpret=kernel.is_interpreted,
    )(steps, *given, *(leaves[at] for at in written))
    for at, leaf in zip(written, moved, strict=True):
        leaves[at] = leaf
    return jax.tree.unflatten(structure, leaves)
