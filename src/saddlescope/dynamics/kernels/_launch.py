"""Running a kernel over all trajectories of a state, in place."""

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
    """Run `body` for every block of trajectories and return the new state.

    `body(problem, state, block, budget)` gets references to the arrays, each with a leading axis of
    trajectories, of length one where all share a problem, and writes into those of the state.
    """
    kernel = problem.kernel
    assert isinstance(kernel, Kernel)
    rows = jax.tree.leaves(state)[0].shape[0]
    with_rows = problem
    if not problem.has_rows:
        with_rows = jax.tree.map(lambda leaf: leaf[None], problem)
    parameters, problem_structure = jax.tree.flatten(with_rows)
    leaves, structure = jax.tree.flatten(state)
    # A kernel takes no empty arrays, such as the path of a run that keeps no weights.
    written = [index for index, leaf in enumerate(leaves) if leaf.size]
    steps = jnp.minimum(budget, _MOST_STEPS).astype(jnp.int32)[None]

    def run(*refs: Ref) -> None:
        inputs, outputs = refs[: 1 + len(parameters)], refs[1 + len(parameters) + len(written) :]
        state_refs = list(leaves)
        for index, ref in zip(written, outputs, strict=True):
            state_refs[index] = ref
        body(
            jax.tree.unflatten(problem_structure, inputs[1:]),
            jax.tree.unflatten(structure, state_refs),
            Block.current(kernel, problem.layout, rows),
            inputs[0][0],
        )

    moved = pl.pallas_call(
        run,
        grid=(-(-rows // kernel.block),),
        out_shape=[jax.ShapeDtypeStruct(leaves[at].shape, leaves[at].dtype) for at in written],
        input_output_aliases={1 + len(parameters) + at: at for at in range(len(written))},
        compiler_params=triton.CompilerParams(num_warps=kernel.warps, num_stages=1),
        interpret=kernel.is_interpreted,
    )(steps, *parameters, *(leaves[at] for at in written))
    for at, leaf in zip(written, moved, strict=True):
        leaves[at] = leaf
    return jax.tree.unflatten(structure, leaves)
