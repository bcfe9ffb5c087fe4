"""What is noted of each seed along its way, in place of records: its drops, levels and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from saddlescope.dynamics.methods._ensemble import over_rows

if TYPE_CHECKING:
    from saddlescope.dynamics.methods._problem import Problem

# Halvings of a step in which a level is passed: to the last digits of its place in the step.
_HALVINGS = 50


class Marks(eqx.Module):
    """What is looked out for; NaN is never passed."""

    middles: Float[Array, "*S M"]
    """The losses midway between one level and the next, in falling order."""
    halves: Float[Array, "*S E"]
    """The effective map's diagonal where each direction has brought half of what it can bring."""

    def by_row(self) -> tuple[Float[Array, "R M"], Float[Array, "R E"]]:
        """Both, with an axis of rows in front: of one, where all look out for the same."""
        return jnp.atleast_2d(self.middles), jnp.atleast_2d(self.halves)


class Notes(eqx.Module):
    """What was seen of it."""

    loss: Float[Array, " S"]
    """The latest loss."""
    diagonal: Float[Array, "S E"]
    """The latest diagonal of the effective map."""
    drops: Float[Array, "S M"]
    """When each middle was first passed, on the method's clock; NaN while it was not, minus
    infinity where the start lies below it."""
    learned: Float[Array, "S E"]
    """When each direction first had brought its half; likewise."""
    levels: Float[Array, "S L"]
    """The loss where it changed least, before the first drop, between two, after the last."""
    changes: Float[Array, "S L"]
    """How much it changed there, in one unit of the clock."""

    @classmethod
    def begin(cls, problem: Problem, weights: Float[Array, "S n"]) -> Notes:
        """At the start."""
        assert problem.marks is not None
        middles, halves = problem.marks.by_row()
        loss, diagonal = _look(problem, weights)
        # Of the type that they will have: with a weak one the second segment would compile anew.
        before, never = (jnp.asarray(value, loss.dtype) for value in (-jnp.inf, jnp.nan))
        return cls(
            loss=loss,
            diagonal=diagonal,
            drops=jnp.where(loss[:, None] <= middles, before, never),
            learned=jnp.where(diagonal >= halves, before, never),
            levels=jnp.where(_at_level(loss, middles), loss[:, None], never),
            changes=jnp.full((loss.shape[0], middles.shape[-1] + 1), jnp.inf, loss.dtype),
        )

    def first(self, marks: Marks) -> Notes:
        """Those on the first marks, as many as there are of these."""
        middles, halves = marks.middles.shape[-1], marks.halves.shape[-1]
        return eqx.tree_at(
            lambda at: (at.diagonal, at.drops, at.learned, at.levels, at.changes),
            self,
            (
                self.diagonal[:, :halves],
                self.drops[:, :middles],
                self.learned[:, :halves],
                self.levels[:, : middles + 1],
                self.changes[:, : middles + 1],
            ),
        )

    def after_step(
        self,
        problem: Problem,
        moved: Bool[Array, " S"],
        step: tuple[Float[Array, " S"], Float[Array, " S"]],
        weights: Float[Array, "S n"],
        changes: tuple[Float[Array, " S"], Float[Array, " S"]] | None = None,
    ) -> Notes:
        """After a step of the seeds in `moved`, from one time to another, that ended at weights.

        `changes` are the loss's derivatives at both ends; without them it goes straight.
        """
        assert problem.marks is not None
        middles, halves = problem.marks.by_row()
        begin, end = step
        loss, diagonal = _look(problem, weights)
        width = end - begin
        if changes is None:
            changes = ((loss - self.loss) / width,) * 2
        passed = _first(self.drops, moved) & (loss[:, None] <= middles)
        ends = tuple(one[:, None] for one in (self.loss, loss, width, *changes))
        found = jax.lax.cond(
            passed.any(),
            lambda: begin[:, None] + width[:, None] * passing(middles, *ends),
            lambda: self.drops,
        )
        reached = _first(self.learned, moved) & (diagonal >= halves)
        share = (halves - self.diagonal) / (diagonal - self.diagonal)
        # The last step of a flow ends beyond its end.
        inside = moved & (end <= problem.grid[..., -1].astype(float))
        flatter = _at_level(loss, middles) & (jnp.abs(changes[1])[:, None] < self.changes)
        flatter = flatter & inside[:, None]
        return Notes(
            loss=jnp.where(moved, loss, self.loss),
            diagonal=jnp.where(moved[:, None], diagonal, self.diagonal),
            drops=jnp.where(passed, found, self.drops),
            learned=jnp.where(reached, begin[:, None] + width[:, None] * share, self.learned),
            levels=jnp.where(flatter, loss[:, None], self.levels),
            changes=jnp.where(flatter, jnp.abs(changes[1])[:, None], self.changes),
        )


def _at_level(loss: Float[Array, " S"], middles: Float[Array, "R M"]) -> Bool[Array, "S L"]:
    """Which level each seed is at: it lies below so many middles."""
    below = (loss[:, None] <= middles).sum(-1)
    return jnp.arange(middles.shape[-1] + 1)[None] == below[:, None]


def _first(noted: Float[Array, "S M"], moved: Bool[Array, " S"]) -> Bool[Array, "S M"]:
    return jnp.isnan(noted) & moved[:, None]


def _look(
    problem: Problem, weights: Float[Array, "S n"]
) -> tuple[Float[Array, " S"], Float[Array, "S E"]]:
    """The loss of every row, and as much of the effective map's diagonal as is looked out for."""

    def one(own: Problem, vector: Float[Array, " n"]) -> tuple[Array, Array]:
        assert own.marks is not None
        named = own.layout.unpack(vector)
        if own.marks.halves.size == 0:
            return own.risk.loss(own.model, named), jnp.zeros_like(own.marks.halves)
        effective_map = own.model.coefficients(named, own.risk.gain)  # type: ignore[attr-defined]
        return own.risk.map_loss(effective_map), effective_map.diagonal()  # type: ignore[attr-defined]

    looked: tuple[Array, Array] = over_rows(one, problem, weights)
    return looked


def passing(
    levels: Float[Array, "#..."],
    begin: Float[Array, "#..."],
    end: Float[Array, "#..."],
    width: Float[Array, "#..."],
    first: Float[Array, "#..."],
    last: Float[Array, "#..."],
) -> Float[Array, "..."]:
    """Where in a step the cubic through its ends, with their slopes, falls to each level."""
    first, last = first * width, last * width

    def halve(_: Int[Array, ""], between: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = between
        at = (low + high) / 2
        height = (
            (1 + 2 * at) * (1 - at) ** 2 * begin
            + at * (1 - at) ** 2 * first
            + at**2 * (3 - 2 * at) * end
            - at**2 * (1 - at) * last
        )
        above = height > levels
        return jnp.where(above, at, low), jnp.where(above, high, at)

    shape = jnp.broadcast_shapes(begin.shape, levels.shape)
    _, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros(shape), jnp.ones(shape)))
    return high
