r"""All blocks of a head (T5): the value row $(\nu, v)$ and the key–query column $(U; u^\top)$.

The prediction is $\theta\cdot\phi$ with $\phi = (T_{ab}x_c,\ \beta_a x_b,\ s x_a)$ and
$\theta = (\sum\nu_a U_{bc},\ \sum v U_{ab} + \nu_a u_b,\ \sum v u_a)$, sums over heads.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import Array, Weights, namespace


def block_coefficients(heads: Weights) -> Float[Array, " F"]:
    """θ of merged blocks `nu[H, D]`, `v[H]`, `U[H, D, D]`, `u[H, D]`, stacked as the features."""
    nu, v, U, u = (heads[name] for name in ("nu", "v", "U", "u"))
    cubic = (nu[:, :, None, None] * U[:, None, :, :]).sum(0)
    square = (v[:, None, None] * U + nu[:, :, None] * u[:, None, :]).sum(0)
    linear = (v[:, None] * u).sum(0)
    parts = [cubic.reshape(-1), square.reshape(-1), linear]
    return namespace(*parts).concatenate(parts)


def block_pull_back(heads: Weights, force: Float[Array, " F"]) -> Weights:
    """The velocity of merged blocks, given that of θ."""
    nu, v, U, u = (heads[name] for name in ("nu", "v", "U", "u"))
    cubic, square, linear = split_coefficients(force, nu.shape[-1])
    return {
        "v": (U * square[None]).sum((-2, -1)) + (u * linear[None]).sum(-1),
        "U": (nu[:, :, None, None] * cubic[None]).sum(1) + v[:, None, None] * square[None],
        "nu": (cubic[None] * U[:, None]).sum((-2, -1)) + (square[None] * u[:, None]).sum(-1),
        "u": (nu[:, :, None] * square[None]).sum(1) + v[:, None] * linear[None],
    }


def split_coefficients(vector: Float[Array, " F"], dimension: int) -> tuple[Array, Array, Array]:
    """θ as `[D, D, D]`, `[D, D]` and `[D]`."""
    border = dimension**3
    return (
        vector[:border].reshape(dimension, dimension, dimension),
        vector[border : border + dimension**2].reshape(dimension, dimension),
        vector[border + dimension**2 :],
    )


def zero_blocks(weights: Weights, names: tuple[str, ...]) -> Weights:
    """Zeros in the shape of those of the named weights that exist."""
    return {name: np.zeros_like(weights[name]) for name in names if name in weights}
