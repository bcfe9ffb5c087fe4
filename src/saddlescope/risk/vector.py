"""The exact loss on vector labels (T15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.risk.base import AbstractRisk

if TYPE_CHECKING:
    from saddlescope.attention import AbstractAttention


class VectorRisk(AbstractRisk):
    r"""The population loss $E\|y_q - p_2 W\hat\Sigma q_1 x_q\|^2$ of vector labels (T15).

    In the eigenbasis U, with $A = q_1 S q_1^\top$ and $M = E[\hat\Sigma A \hat\Sigma]$ (T2):
    $\sum_\alpha s_\alpha - 2 \bar p_\alpha (q_1)_{\alpha\alpha} s_\alpha^2
    + \bar P_\alpha M_{\alpha\alpha}$, where $\bar p$ is the diagonal of $p_2$ and $\bar P$ that of
    $p_2^\top p_2$ for aligned tasks, and their means for independent ones.
    """

    gain: Array
    eigenvalues: Array
    basis: Array
    inverse_length: Array
    tasks: str = eqx.field(static=True)

    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        s, nu = self.eigenvalues, self.inverse_length
        value, query = (self.basis.T @ weights[name] @ self.basis for name in ("p2", "q1"))
        diagonal, power = value.diagonal(), (value**2).sum(0)
        if self.tasks == "independent":
            diagonal, power = diagonal.mean(), power.mean()
        inner = (query**2 * s[None]).sum(1)
        spread = (1 + nu) * s**2 * inner + nu * s * (s * inner).sum()
        drive = diagonal * query.diagonal() * s**2
        return (s - 2 * self.gain * drive + self.gain**2 * power * spread).sum()
