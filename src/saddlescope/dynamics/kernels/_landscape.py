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
    steepness: Matrix
    r"""Rate, squared gain and $-b_a\kappa_b$ multiplied."""
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
            [[(-scale * gain) * (b * kappa) for kappa in query] for b in summary],
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
        rows = zip(self.steepness, effective_map, strict=True)
        force = [[s * w for s, w in zip(*row, strict=True)] for row in rows]
        for axis, drive in enumerate(self.drive):
            force[axis][axis] = drive + force[axis][axis]
        return force

    def loss(self, effective_map: Matrix) -> Lane:
        """The loss of every trajectory."""
        terms = []
        for axis, row in enumerate(effective_map):
            for other, w in enumerate(row):
                slope = self.steepness[axis][other] * w
                terms.append(w * (slope + 2 * self.drive[axis] if axis == other else slope))
        return self.label_power - self.inverse_rate * sum(terms[1:], terms[0])

    def diagonal(self, effective_map: Matrix) -> list[Lane]:
        """The diagonal of W, gain included."""
        return [self.gain * row[axis] for axis, row in enumerate(effective_map)]
