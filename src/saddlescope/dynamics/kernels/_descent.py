"""Gradient descent in lanes: a segment of steps in one kernel."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from saddlescope.dynamics.kernels._heads import heads_of
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Ref
from saddlescope.dynamics.kernels._launch import launch
from saddlescope.dynamics.kernels._records import NoteTaker, Recorder
from saddlescope.dynamics.kernels._steppers import AbstractStepper, MemoryStepper, RegisterStepper
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._stepping import StepState
from saddlescope.dynamics.methods._steps import GradientStep
from saddlescope.running.programs import compiled

# More steps than any segment has, in 32 bits.
_FAR = 2**31 - 1


def advance(problem: Problem[GradientStep], state: StepState, budget: int) -> tuple[StepState, int]:
    """Take at most `budget` steps; the new state and the steps of all groups together."""
    moved = _advance(problem, state, jnp.asarray(budget))
    steps = moved.step - state.step
    return moved, int(steps.max()) * (len(steps) // problem.group)


@compiled
def _advance(problem: Problem[GradientStep], state: StepState, budget: Int[Array, ""]) -> StepState:
    kernel = problem.kernel
    assert isinstance(kernel, Kernel)
    workspace = _by_block(state.weights, kernel.block) if kernel.in_memory else None
    moved, _ = launch(_segment, problem, (state, workspace), budget)
    return moved


def _by_block(weights: Float[Array, "S n"], block: int) -> Float[Array, "B n block"]:
    """The entries of a block's trajectories side by side; trajectories that fill the last are 0."""
    blocks = -(-len(weights) // block)
    filled = jnp.pad(weights, ((0, blocks * block - len(weights)), (0, 0)))
    return filled.reshape(blocks, block, -1).swapaxes(1, 2)


def _segment(
    problem: Problem[GradientStep],
    refs: tuple[StepState, Ref | None],
    block: Block,
    budget: Int[Array, ""],
) -> None:
    """Advance one block by a segment."""
    state, workspace = refs
    landscape = Landscape.of(block, problem, 2 * block.parameter(problem.rule.rate))
    recorder = Recorder.of(block, problem, state.records)
    note_taker = NoteTaker.of(block, problem, state.records.notes)
    stepper: AbstractStepper
    if workspace is None:
        stepper = RegisterStepper(block, landscape, state.weights)
    else:
        head = heads_of(problem.model, 1, block.layout.dimension)
        stepper = MemoryStepper(block, landscape, head, workspace)

    def unfinished(carry: PyTree[Array]) -> Array:
        _, _, cursor, _, taken = carry
        return (taken < budget) & block.any(recorder.active(cursor))

    def step_to_record(carry: PyTree[Array]) -> PyTree[Array]:
        carried, step, cursor, live, taken = carry
        active = recorder.active(cursor)
        # All rows step to the nearest record of any; rows of one setting record together.
        ahead = jnp.minimum(cursor.due - step, _FAR).astype(jnp.int32)
        count = jnp.minimum(block.least(jnp.where(active, ahead, budget)), budget - taken)

        def move(done: Array, inner: PyTree[Array]) -> PyTree[Array]:
            weights, live = inner
            weights = stepper.step(weights)
            if note_taker is not None:
                begin = (step + done.astype(step.dtype)).astype(landscape.gain.dtype)
                _, effective_map = weights
                at = landscape.loss(effective_map), landscape.diagonal(effective_map)
                live = note_taker.after_step(live, active, (begin, begin + 1), at)
            return weights, live

        carried, live = jax.lax.fori_loop(0, count, move, (carried, live))
        write_weights = partial(stepper.write, carried)
        finite = active & (block.total(stepper.nonfinite(carried)) == 0)
        cursor = recorder.write(
            cursor, active & (ahead == count), write_weights, landscape.loss(carried[1])
        )
        cursor = recorder.fail(cursor, active & ~finite)
        # A seed that fails keeps its last weights that were seen finite.
        write_weights(state.weights, finite)
        step = step + jnp.where(finite, count, 0).astype(step.dtype)
        return carried, step, cursor, live, taken + count

    begun = (
        stepper.begin(),
        block.read(state.step),
        recorder.load(),
        None if note_taker is None else note_taker.load(),
        jnp.zeros((), jnp.int32),
    )
    _, step, cursor, live, _ = jax.lax.while_loop(unfinished, step_to_record, begun)
    block.write(state.step, step, block.inside)
    recorder.store(cursor)
    if note_taker is not None and live is not None:
        note_taker.store(live)
