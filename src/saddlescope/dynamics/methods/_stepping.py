"""Whole segments of steps in one compiled loop, whatever a step is."""

from __future__ import annotations

import abc
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractLinearAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics.methods._ensemble import map_groups, over_rows, pick
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.running.programs import compiled, compiled_in_haste

# Iterations of the power method behind a suggested learning rate.
_POWER_ITERATIONS = 200


class AbstractStep(eqx.Module):
    """One step of one seed; what may change without compiling anew is an array in it."""

    @abc.abstractmethod
    def remember(self, weights: Weights, seed: Int[Array, ""]) -> PyTree[Array]:
        """What a seed carries from step to step besides its weights, at the start."""

    @abc.abstractmethod
    def __call__(
        self,
        problem: Problem[AbstractStep],
        weights: Weights,
        memory: PyTree[Array],
        count: Int[Array, ""],
    ) -> tuple[Weights, PyTree[Array]]:
        """The weights and the memory after step number `count`."""


class StepState(AbstractState):
    """A run of steps between two segments."""

    step: Int[Array, " S"]
    weights: Float[Array, "S n"]
    """The weights after that step; those of a failed seed when they were last seen finite."""
    memory: PyTree[Array]
    records: Records

    def vectors(self) -> tuple[PyTree, ...]:
        return self.weights, self.records.last, self.records.path

    def narrowed(self, layout: Layout) -> StepState:
        shapes = dict(layout.shapes)

        def own(path: tuple[object, ...], leaf: AnyArray) -> AnyArray:
            # What an optimiser remembers of a weight has its name and its shape.
            name = getattr(path[-1], "key", None) if path else None
            return leaf[:, *map(slice, shapes[name])] if name in shapes else leaf

        kept = jax.tree_util.tree_map_with_path(own, self.memory)
        return eqx.tree_at(lambda at: at.memory, self, kept) if jax.tree.leaves(kept) else self


Carry: TypeAlias = tuple[StepState, Int[Array, ""]]
"""A state, and the steps taken since the segment began."""


def advance(problem: Problem[AbstractStep], state: StepState, budget: int) -> tuple[StepState, int]:
    """Take at most about `budget` steps; the new state and the steps taken."""
    moved, taken = _advance(problem, state, jax.device_put(budget))
    return moved, int(taken)


def begin(
    problem: Problem[AbstractStep], seeds: Int[Array, " S"], weights: Float[Array, "S n"]
) -> StepState:
    """The state at the first point of the grid."""
    return StepState(
        step=jnp.broadcast_to(problem.grid[..., 0], seeds.shape).astype(int),
        weights=weights,
        memory=_memories(problem, seeds, weights),
        records=Records.begin(problem, weights),
    )


@compiled_in_haste
def _memories(
    problem: Problem[AbstractStep], seeds: Int[Array, " S"], weights: Float[Array, "S n"]
) -> PyTree[Array]:
    def remember(own: Problem[AbstractStep], row: tuple[Array, Array]) -> PyTree[Array]:
        vector, seed = row
        return own.rule.remember(own.layout.unpack(vector), seed)

    return over_rows(remember, problem, (weights, seeds))


@compiled
def _advance(problem: Problem[AbstractStep], state: StepState, budget: Int[Array, ""]) -> Carry:
    layout = problem.layout

    def group(problem: Problem[AbstractStep], at: StepState) -> Carry:
        def unfinished(carry: Carry) -> Bool[Array, ""]:
            state, taken = carry
            return (taken < budget) & state.records.active(problem).any()

        def leg(carry: Carry) -> Carry:
            state, taken = carry
            active = state.records.active(problem)
            # All go as far as the nearest record of one of them; those of one setting are in step.
            ahead = state.records.due - state.step
            count = jnp.where(active, ahead, budget).min()
            count = jnp.minimum(count, budget - taken)

            def move(done: Int[Array, ""], carried: PyTree[Array]) -> PyTree[Array]:
                def one(own: Problem[AbstractStep], row: PyTree[Array]) -> PyTree[Array]:
                    weights, memory, first = row
                    return own.rule(own, weights, memory, first + done)

                weights, memory, notes = carried
                weights, memory = over_rows(one, problem, (weights, memory, state.step))
                if notes is not None:
                    begin = (state.step + done).astype(float)
                    step = begin, begin + 1
                    notes = notes.after_step(problem, active, step, layout.pack(weights))
                return weights, memory, notes

            begun = (layout.unpack(state.weights), state.memory, state.records.notes)
            moved, memory, notes = jax.lax.fori_loop(0, count, move, begun)
            weights = layout.pack(moved)
            sound = jnp.isfinite(weights).all(-1)
            records = state.records.write(problem, active & (ahead == count), weights)
            records = eqx.tree_at(lambda r: r.failed, records, records.failed | (active & ~sound))
            if notes is not None:
                records = eqx.tree_at(lambda r: r.notes, records, notes)
            return StepState(
                step=state.step + jnp.where(active & sound, count, 0),
                weights=pick(active & sound, weights, state.weights),
                memory=pick(active & sound, memory, state.memory),
                records=records,
            ), taken + count

        return jax.lax.while_loop(unfinished, leg, (at, jnp.asarray(0)))

    return map_groups(group, problem, state, problem.group)


@compiled
def overflow_steps(problem: Problem[AbstractStep], state: StepState) -> Int[Array, " S"]:
    """The step at which each failed seed's weights overflow, by following it again, [S]."""

    def unfinished(carry: PyTree[Array]) -> Bool[Array, ""]:
        vector, _, _, failed = carry
        return failed & jnp.isfinite(vector).all()

    def advance(carry: PyTree[Array]) -> PyTree[Array]:
        vector, memory, count, failed = carry
        weights = problem.layout.unpack(vector)
        weights, memory = problem.rule(problem, weights, memory, count)
        return problem.layout.pack(weights), memory, count + 1, failed

    def one(at: PyTree[Array]) -> Int[Array, ""]:
        return jax.lax.while_loop(unfinished, advance, at)[2]

    return jax.lax.map(one, (state.weights, state.memory, state.step, state.records.failed))


def stable_rate(problem: Problem, starts: Float[Array, "F n"]) -> float:
    """Half the largest learning rate that is stable at the starts and at the least-norm minimum."""
    model, places = problem.model, list(starts)
    if isinstance(model, AbstractLinearAttention):
        best = problem.risk.best_map(model.capacity(problem.dimension))
        if best is not None:
            weights = model.realise(best / float(problem.risk.gain))
            places.append(jnp.asarray(problem.layout.pack(weights)))
    steepest = max(float(_steepest_curvature(problem, one)) for one in places)
    return 1 / steepest if steepest > 0 else float("inf")


@compiled
def _steepest_curvature(problem: Problem, vector: Float[Array, " n"]) -> Float[Array, ""]:
    """The largest eigenvalue of the loss's Hessian, by the power method."""

    def iterate(_: Int[Array, ""], direction: Float[Array, " n"]) -> Float[Array, " n"]:
        image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
        return image / jnp.linalg.norm(image)

    # Every direction has a share in it, and none is an eigenvector by accident.
    start = jnp.cos(jnp.arange(vector.shape[0], dtype=vector.dtype))
    direction = jax.lax.fori_loop(0, _POWER_ITERATIONS, iterate, start / jnp.linalg.norm(start))
    image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
    return 2 * jnp.abs((direction * image).sum())
