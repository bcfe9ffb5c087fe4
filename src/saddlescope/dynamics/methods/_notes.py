"""Events noted inside the compiled loop in place of records: drops, levels, order of learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from saddlescope.dynamics.methods._ensemble import over_rows

if TYPE_CHECKING:
    from saddlescope.dynamics.methods._problem import Problem

# Bisections of a step to find where it crosses a level: enough for the last digits.
_HALVINGS = 50


class Marks(eqx.Module):
    """The thresholds to watch for; NaN is never crossed."""

    middles: Float[Array, "*S M"]
    """The losses midway between successive levels, in falling order."""
    halves: Float[Array, "*S E"]
    """The effective map's diagonal where each direction has given half of its gain in loss."""

    def by_row(self) -> tuple[Float[Array, "R M"], Float[Array, "R E"]]:
        """Both with a leading row axis, of length one where all rows share them."""
        return jnp.atleast_2d(self.middles), jnp.atleast_2d(self.halves)


class Notes(eqx.Module):
    """What has been noted of each seed so far."""

    loss: Float[Array, " S"]
    """The latest loss."""
    diagonal: Float[Array, "S E"]
    """The latest diagonal of the effective map."""
    drops: Float[Array, "S M"]
    """When each middle was first crossed, on the method's clock; NaN if not yet, minus infinity if
    the start was already below it."""
    learned: Float[Array, "S E"]
    """When each direction first reached its half; likewise."""
    levels: Float[Array, "S L"]
    """The loss where it changed least: before the first drop, between drops, after the last."""
    changes: Float[Array, "S L"]
    """How fast it changed there, per unit of the clock."""

    @classmethod
    def begin(cls, problem: Problem, weights: Float[Array, "S n"]) -> Notes:
        """The notes at the start."""
        assert problem.marks is not None
        middles, halves = problem.marks.by_row()
        loss, diagonal = _loss_and_diagonal(problem, weights)
        # Strongly typed: weak types would make the second segment compile again.
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
        """The notes on the first marks, as many as `marks` has."""
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
        """The notes after a step of the seeds in `moved`, over the times `step`, to `weights`.

        `changes` are the derivatives of the loss at both ends; without them it is interpolated
        linearly.
        """
        assert problem.marks is not None
        middles, halves = problem.marks.by_row()
        begin, end = step
        loss, diagonal = _loss_and_diagonal(problem, weights)
        width = end - begin
        if changes is None:
            changes = ((loss - self.loss) / width,) * 2
        crossed = _not_yet(self.drops, moved) & (loss[:, None] <= middles)
        ends = tuple(value[:, None] for value in (self.loss, loss, width, *changes))
        times = jax.lax.cond(
            crossed.any(),
            lambda: begin[:, None] + width[:, None] * crossing(middles, *ends),
            lambda: self.drops,
        )
        reached = _not_yet(self.learned, moved) & (diagonal >= halves)
        share = (halves - self.diagonal) / (diagonal - self.diagonal)
        # A flow's last step goes beyond its end.
        inside = moved & (end <= problem.grid[..., -1].astype(float))
        flatter = _at_level(loss, middles) & (jnp.abs(changes[1])[:, None] < self.changes)
        flatter = flatter & inside[:, None]
        return Notes(
            loss=jnp.where(moved, loss, self.loss),
            diagonal=jnp.where(moved[:, None], diagonal, self.diagonal),
            drops=jnp.where(crossed, times, self.drops),
            learned=jnp.where(reached, begin[:, None] + width[:, None] * share, self.learned),
            levels=jnp.where(flatter, loss[:, None], self.levels),
            changes=jnp.where(flatter, jnp.abs(changes[1])[:, None], self.changes),
        )


def _at_level(loss: Float[Array, " S"], middles: Float[Array, "R M"]) -> Bool[Array, "S L"]:
    """Which level each seed is at: the number of middles that it is below."""
    below = (loss[:, None] <= middles).sum(-1)
    return jnp.arange(middles.shape[-1] + 1)[None] == below[:, None]


def _not_yet(noted: Float[Array, "S M"], moved: Bool[Array, " S"]) -> Bool[Array, "S M"]:
    return jnp.isnan(noted) & moved[:, None]


def _loss_and_diagonal(
    problem: Problem, weights: Float[Array, "S n"]
) -> tuple[Float[Array, " S"], Float[Array, "S E"]]:
    """Each row's loss and the watched part of its effective map's diagonal."""

    def of_row(problem: Problem, vector: Float[Array, " n"]) -> tuple[Array, Array]:
        assert problem.marks is not None
        named = problem.layout.unpack(vector)
        if problem.marks.halves.size == 0:
            return problem.risk.loss(problem.model, named), jnp.zeros_like(problem.marks.halves)
        effective_map = problem.model.coefficients(named, problem.risk.gain)  # type: ignore[attr-defined]
        return problem.risk.map_loss(effective_map), effective_map.diagonal()  # type: ignore[attr-defined]

    values: tuple[Array, Array] = over_rows(of_row, problem, weights)
    return values


def crossing(
    levels: Float[Array, "#..."],
    begin: Float[Array, "#..."],
    end: Float[Array, "#..."],
    width: Float[Array, "#..."],
    first: Float[Array, "#..."],
    last: Float[Array, "#..."],
) -> Float[Array, "..."]:
    """Where in a step, from 0 to 1, the cubic Hermite interpolant falls to each level."""
    first, last = first * width, last * width

    def halve(_: Int[Array, ""], bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
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
