"""Segments of steps in one compiled loop, for any kind of step."""

from __future__ import annotations

import abc
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from saddlescope.arrays import Weights
from saddlescope.attention import AbstractLinearAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics.methods._ensemble import map_groups, over_grouped_rows, over_rows, pick
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.running.programs import compiled, compiled_in_haste

# Iterations of the power method behind a suggested learning rate.
_POWER_ITERATIONS = 200


class AbstractStep(eqx.Module):
    """One step of one seed; whatever may change without recompilation is an array."""

    @abc.abstractmethod
    def init(self, weights: Weights, seed: Int[Array, ""]) -> PyTree[Array]:
        """The initial memory: what a seed carries from step to step besides its weights."""

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
    """A step-wise run between two segments."""

    step: Int[Array, " S"]
    weights: Float[Array, "S n"]
    """The weights after that step; of a failed seed, the last that were seen finite."""
    memory: PyTree[Array]
    records: Records

    def vectors(self) -> tuple[PyTree, ...]:
        return self.weights, self.records.last, self.records.path

    def narrowed(self, layout: Layout) -> StepState:
        shapes = dict(layout.shapes)

        def crop(path: tuple[object, ...], leaf: AnyArray) -> AnyArray:
            # An optimiser's memory of a weight has that weight's name and shape.
            name = getattr(path[-1], "key", None) if path else None
            return leaf[:, *map(slice, shapes[name])] if name in shapes else leaf

        kept = jax.tree_util.tree_map_with_path(crop, self.memory)
        return eqx.tree_at(lambda at: at.memory, self, kept) if jax.tree.leaves(kept) else self


Carry: TypeAlias = tuple[StepState, Int[Array, ""]]
"""A state, and the steps taken in this segment."""


def advance(problem: Problem[AbstractStep], state: StepState, budget: int) -> tuple[StepState, int]:
    """Take about `budget` steps or fewer; the new state and the steps taken."""
    moved, taken = _advance(problem, state, jax.device_put(budget))
    return moved, int(taken)


def begin(
    problem: Problem[AbstractStep], seeds: Int[Array, " S"], weights: Float[Array, "S n"]
) -> StepState:
    """The state at the first point of the grid."""
    return StepState(
        step=jnp.broadcast_to(problem.grid[..., 0], seeds.shape).astype(int),
        weights=weights,
        memory=_init_memory(problem, seeds, weights),
        records=Records.begin(problem, weights),
    )


@compiled_in_haste
def _init_memory(
    problem: Problem[AbstractStep], seeds: Int[Array, " S"], weights: Float[Array, "S n"]
) -> PyTree[Array]:
    def init_row(problem: Problem[AbstractStep], row: tuple[Array, Array]) -> PyTree[Array]:
        vector, seed = row
        return problem.rule.init(problem.layout.unpack(vector), seed)

    return over_grouped_rows(init_row, problem, (weights, seeds))


@compiled
def _advance(problem: Problem[AbstractStep], state: StepState, budget: Int[Array, ""]) -> Carry:
    layout = problem.layout

    def group(problem: Problem[AbstractStep], begun: StepState) -> Carry:
        def unfinished(carry: Carry) -> Bool[Array, ""]:
            state, taken = carry
            return (taken < budget) & state.records.active(problem).any()

        def step_to_record(carry: Carry) -> Carry:
            state, taken = carry
            active = state.records.active(problem)
            # All rows step to the nearest record of any; rows of one setting record together.
            ahead = state.records.due - state.step
            count = jnp.where(active, ahead, budget).min()
            count = jnp.minimum(count, budget - taken)

            def move(done: Int[Array, ""], carried: PyTree[Array]) -> PyTree[Array]:
                def move_row(
                    row_problem: Problem[AbstractStep], row: PyTree[Array]
                ) -> PyTree[Array]:
                    weights, memory, first = row
                    return row_problem.rule(row_problem, weights, memory, first + done)

                weights, memory, notes = carried
                weights, memory = over_rows(move_row, problem, (weights, memory, state.step))
                if notes is not None:
                    begin = (state.step + done).astype(float)
                    step = begin, begin + 1
                    notes = notes.after_step(problem, active, step, layout.pack(weights))
                return weights, memory, notes

            before = (layout.unpack(state.weights), state.memory, state.records.notes)
            moved, memory, notes = jax.lax.fori_loop(0, count, move, before)
            weights = layout.pack(moved)
            finite = jnp.isfinite(weights).all(-1)
            records = state.records.write(problem, active & (ahead == count), weights)
            records = eqx.tree_at(lambda r: r.failed, records, records.failed | (active & ~finite))
            if notes is not None:
                records = eqx.tree_at(lambda r: r.notes, records, notes)
            return StepState(
                step=state.step + jnp.where(active & finite, count, 0),
                weights=pick(active & finite, weights, state.weights),
                memory=pick(active & finite, memory, state.memory),
                records=records,
            ), taken + count

        return jax.lax.while_loop(unfinished, step_to_record, (begun, jnp.asarray(0)))

    return map_groups(group, problem, state, problem.group)


@compiled
def overflow_steps(problem: Problem[AbstractStep], state: StepState) -> Int[Array, " S"]:
    """The step at which each failed seed's weights overflow, found by rerunning it, [S]."""

    def unfinished(carry: PyTree[Array]) -> Bool[Array, ""]:
        vector, _, _, failed = carry
        return failed & jnp.isfinite(vector).all()

    def advance(carry: PyTree[Array]) -> PyTree[Array]:
        vector, memory, count, failed = carry
        weights = problem.layout.unpack(vector)
        weights, memory = problem.rule(problem, weights, memory, count)
        return problem.layout.pack(weights), memory, count + 1, failed

    def overflow_step(row: PyTree[Array]) -> Int[Array, ""]:
        return jax.lax.while_loop(unfinished, advance, row)[2]

    return jax.lax.map(
        overflow_step, (state.weights, state.memory, state.step, state.records.failed)
    )


def stable_rate(problem: Problem, starts: Float[Array, "F n"]) -> float:
    """Half the largest learning rate that is stable at the starts and at the least-norm minimum."""
    model, points = problem.model, list(starts)
    if isinstance(model, AbstractLinearAttention):
        best = problem.risk.best_map(model.capacity(problem.dimension))
        if best is not None:
            weights = model.realise(best / float(problem.risk.gain))
            points.append(jnp.asarray(problem.layout.pack(weights)))
    curvatures = np.array([float(_steepest_curvature(problem, point)) for point in points])
    # Weights that overflow at the start have none, and say nothing about the others.
    steepest = float(curvatures[np.isfinite(curvatures)].max(initial=0.0))
    return 1 / steepest if steepest > 0 else float("inf")


@compiled
def _steepest_curvature(problem: Problem, vector: Float[Array, " n"]) -> Float[Array, ""]:
    """The largest eigenvalue of the loss's Hessian, by the power method."""

    def iterate(_: Int[Array, ""], direction: Float[Array, " n"]) -> Float[Array, " n"]:
        image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
        return image / jnp.linalg.norm(image)

    # Has a component along every direction, and is unlikely to be an eigenvector.
    start = jnp.cos(jnp.arange(vector.shape[0], dtype=vector.dtype))
    direction = jax.lax.fori_loop(0, _POWER_ITERATIONS, iterate, start / jnp.linalg.norm(start))
    image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
    return 2 * jnp.abs((direction * image).sum())
