"""The weights that a loss can move: those beside directions without power stay as they began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.risk import AbstractRisk
from saddlescope.setting import Setting


@dataclass(frozen=True, eq=False)
class Moving:
    """Flat weights that may move, among all of a model's, in the coordinates of the risk."""

    whole: Layout
    layout: Layout
    places: AnyArray
    """Where they are in the whole, [n]."""

    @classmethod
    def of(cls, setting: Setting, risk: AbstractRisk) -> tuple[Moving, AbstractRisk]:
        """Those of a setting, and its loss as they feel it.

        A covariance of rank r then costs what one in r dimensions does. Weights are left out only
        where zeros could be added too, and where one that feels no force stays as it is.
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
        """Them alone, [S, n], of all weights, [S, m]."""
        return whole if self.is_all else whole[:, self.places]

    def put_back(self, moved: FloatArray, starts: FloatArray) -> FloatArray:
        """All weights, [S, …, m], from those that moved, [S, …, n], and where all of them began.

        Where there is no record of the one, there is none of the others.
        """
        across = (slice(None), *[None] * (moved.ndim - 2))
        lacking = np.isnan(moved).all(-1, keepdims=True)
        whole: FloatArray = np.where(lacking, np.nan, starts.astype(moved.dtype)[across])
        whole[..., self.places] = moved
        return whole
