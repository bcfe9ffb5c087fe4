"""The weights that a loss can move; those on directions without power stay as they began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.risk import AbstractRisk
from saddlescope.setting import Setting


@dataclass(frozen=True, eq=False)
class Moving:
    """The weights that can move among all of a model's, flat and in the coordinates of the risk."""

    whole: Layout
    layout: Layout
    indices: AnyArray
    """Their indices among all weights, [n]."""

    @classmethod
    def of(cls, setting: Setting, risk: AbstractRisk) -> tuple[Moving, AbstractRisk]:
        """The weights of a setting that can move, and its loss restricted to them.

        A covariance of rank r then costs as much as one in r dimensions. Weights are left out only
        where padding with zeros is possible too, and where a weight without force stays constant.
        """
        model, dimension = setting.model, setting.task.dimension
        layout = whole = Layout.of(model, dimension)
        felt = risk.felt_dimensions()
        can_rest = setting.method.is_autonomous and bool(model.inert_sizes)
        if can_rest and felt is not None and felt < dimension:
            layout, risk = Layout.of(model, felt), risk.trimmed(felt)
        return cls(whole, layout, layout.indices_in(whole)), risk

    @property
    def is_all(self) -> bool:
        """Whether no weight is left out."""
        return self.layout == self.whole

    def pick(self, whole: FloatArray) -> FloatArray:
        """The weights that can move, [S, n], of all weights, [S, m]."""
        return whole if self.is_all else whole[:, self.indices]

    def put_back(self, moved: FloatArray, starts: FloatArray) -> FloatArray:
        """All weights, [S, …, m], from those that moved, [S, …, n], and all of their starts.

        A record that is NaN throughout stays NaN for all weights.
        """
        across = (slice(None), *[None] * (moved.ndim - 2))
        missing = np.isnan(moved).all(-1, keepdims=True)
        whole: FloatArray = np.where(missing, np.nan, starts.astype(moved.dtype)[across])
        whole[..., self.indices] = moved
        return whole
