"""The loss and its gradient in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saddlescope.dynamics.kernels._heads import AbstractHeads, Matrix, heads_of
from saddlescope.dynamics.kernels._lanes import Block, Lane
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.risk import DiagonalRisk


@dataclass(frozen=True)
class Landscape:
    r"""$G_{ab} = c_a\delta_{ab} - b_a\kappa_b W_{ab}$ of every trajectory, times a rate."""

    block: Block
    heads: AbstractHeads
    inverse_rate: Lane
    label_power: Lane
    drive: list[Lane]
    """Rate, gain and $c_a$ multiplied."""
    steepness: list[Lane]
    r"""Rate, squared gain and $-b_a$ multiplied."""
    query: list[Lane]
    r"""$\kappa_b$"""
    gain: Lane

    @classmethod
    def of(cls, block: Block, problem: Problem, rate: Lane) -> Landscape:
        """From a problem in GPU memory."""
        layout, risk = block.layout, problem.risk
        assert isinstance(risk, DiagonalRisk)
        heads = heads_of(problem.model, block.kernel.heads(layout), layout.dimension)
        axes = range(layout.dimension)
        gain = block.parameter(risk.gain)
        scale = rate * gain
        summary, query = (
            [block.parameter(moment, a) for a in axes] for moment in (risk.summary, risk.query)
        )
        return cls(
            block,
            heads,
            1 / rate,
            block.parameter(risk.label_power),
            [scale * block.parameter(risk.drive, a) for a in axes],
            [(-scale * gain) * b for b in summary],
            query,
            gain,
        )

    def effective_map(self, vector: Sequence[Lane]) -> Matrix:
        """W of every trajectory, without the gain."""
        parts = self.heads.effective_map(vector)
        return [[self.block.total(part) for part in row] for row in parts]

    def velocity(self, vector: Sequence[Lane], effective_map: Matrix) -> list[Lane]:
        r"""$-\frac12\partial L/\partial w$ times the rate."""
        return self.heads.pull_back(vector, self.force(effective_map))

    def force(self, effective_map: Matrix) -> Matrix:
        r"""$-\frac12\partial L/\partial W$ times the rate."""
        force = self._restoring_force(effective_map)
        for axis, drive in enumerate(self.drive):
            force[axis][axis] = drive + force[axis][axis]
        return force

    def loss(self, effective_map: Matrix) -> Lane:
        """The loss of every trajectory."""
        terms = []
        slopes = self._restoring_force(effective_map)
        for axis, (row, slope) in enumerate(zip(effective_map, slopes, strict=True)):
            slope[axis] = slope[axis] + 2 * self.drive[axis]
            terms += [w * s for w, s in zip(row, slope, strict=True)]
        return self.label_power - self.inverse_rate * sum(terms[1:], terms[0])

    def _restoring_force(self, effective_map: Matrix) -> Matrix:
        r"""$-b_a\kappa_b W_{ab}$ times the rate and the squared gain."""
        pairs = list(zip(self.steepness, effective_map, strict=True))
        if self.block.kernel.in_memory:
            # In this order the compiler cannot keep the D² products of b and κ in registers, which
            # are all taken.
            return [[(b * w) * k for w, k in zip(row, self.query, strict=True)] for b, row in pairs]
        return [[(b * k) * w for w, k in zip(row, self.query, strict=True)] for b, row in pairs]

    def diagonal(self, effective_map: Matrix) -> list[Lane]:
        """The diagonal of W, gain included."""
        return [self.gain * row[axis] for axis, row in enumerate(effective_map)]
