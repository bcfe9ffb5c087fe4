"""Gradient descent in lanes: a whole segment of steps in one kernel."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from saddlescope.dynamics.kernels._heads import heads_of
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Ref
from saddlescope.dynamics.kernels._launch import launch
from saddlescope.dynamics.kernels._motion import AbstractMotion, InMemory, InRegisters
from saddlescope.dynamics.kernels._records import Recorder, Watch
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._stepping import StepState
from saddlescope.dynamics.methods._steps import GradientStep
from saddlescope.running.programs import compiled

# More steps than a segment has, in 32 bits.
_FAR = 2**31 - 1


def advance(problem: Problem[GradientStep], state: StepState, budget: int) -> tuple[StepState, int]:
    """Take at most `budget` steps; the new state and the steps that all groups have taken."""
    moved = _advance(problem, state, jnp.asarray(budget))
    steps = moved.step - state.step
    return moved, int(steps.max()) * (len(steps) // problem.group)


@compiled
def _advance(problem: Problem[GradientStep], state: StepState, budget: Int[Array, ""]) -> StepState:
    kernel = problem.kernel
    assert isinstance(kernel, Kernel)
    desk = state.weights.T if kernel.in_memory else None
    moved, _ = launch(_segment, problem, (state, desk), budget)
    return moved


def _segment(
    problem: Problem[GradientStep],
    given: tuple[StepState, Ref | None],
    block: Block,
    budget: Int[Array, ""],
) -> None:
    """What a block does."""
    state, desk = given
    landscape = Landscape.of(block, problem, 2 * block.given(problem.rule.rate))
    recorder = Recorder.of(block, problem, state.records)
    watch = Watch.of(block, problem, state.records.notes)
    motion: AbstractMotion
    if desk is None:
        motion = InRegisters(block, landscape, state.weights)
    else:
        head = heads_of(problem.model, 1, block.layout.dimension)
        motion = InMemory(block, landscape, head, desk)

    def unfinished(carry: PyTree[Array]) -> Array:
        _, _, place, _, taken = carry
        return (taken < budget) & block.any(recorder.active(place))

    def leg(carry: PyTree[Array]) -> PyTree[Array]:
        carried, step, place, seen, taken = carry
        active = recorder.active(place)
        # All go as far as the nearest record of one of them; those of one setting are in step.
        ahead = jnp.minimum(place.due - step, _FAR).astype(jnp.int32)
        count = jnp.minimum(block.least(jnp.where(active, ahead, budget)), budget - taken)

        def move(done: Array, both: PyTree[Array]) -> PyTree[Array]:
            weights, seen = both
            weights = motion.step(weights)
            if watch is not None:
                begin = (step + done.astype(step.dtype)).astype(landscape.gain.dtype)
                _, effective_map = weights
                at = landscape.loss(effective_map), landscape.diagonal(effective_map)
                seen = watch.after_step(seen, active, (begin, begin + 1), at)
            return weights, seen

        carried, seen = jax.lax.fori_loop(0, count, move, (carried, seen))
        put = partial(motion.write, carried)
        sound = active & (block.total(motion.spoiled(carried)) == 0)
        place = recorder.write(place, active & (ahead == count), put, landscape.loss(carried[1]))
        place = recorder.failing(place, active & ~sound)
        # A seed that fails keeps the weights that were last seen finite.
        put(state.weights, sound)
        step = step + jnp.where(sound, count, 0).astype(step.dtype)
        return carried, step, place, seen, taken + count

    begun = (
        motion.begin(),
        block.read(state.step),
        recorder.begin(),
        None if watch is None else watch.begin(),
        jnp.zeros((), jnp.int32),
    )
    _, step, place, seen, _ = jax.lax.while_loop(unfinished, leg, begun)
    block.write(state.step, step, block.inside)
    recorder.end(place)
    if watch is not None and seen is not None:
        watch.end(seen)
