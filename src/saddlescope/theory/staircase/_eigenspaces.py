"""Equal eigenvalues: any basis of their space will do, and the winners choose it (T13).

All that is of an eigenspace is the same in every direction of it: to turn it changes nothing but
what its modes are called.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._standing import Standing


def turn_to_modes(
    standing: Standing, heads: AnyArray, modes: AnyArray, felt: Felt, moments: Sequence[FloatArray]
) -> None:
    """Turn states, in place, so that what each seed's winner has learned is its mode."""
    for seed, (head, mode) in enumerate(zip(heads.tolist(), modes.tolist(), strict=True)):
        free = _same(standing, mode) & ~standing.order.given[:, seed]
        _mirror(standing, felt, head, free, mode, seed, moments)


def turn_after_winners(
    standing: Standing, seeds: Bool[np.ndarray, " S"], felt: Felt, moments: Sequence[FloatArray]
) -> None:
    """Turn states, in place, after winners that have turned since they won."""
    if not (standing.modes.same_eigenspace.sum(0) > 1).any():
        return
    order = standing.order
    for seed in np.flatnonzero(seeds & order.moving.any(0)).tolist():
        taken = (order.held[:, :, seed] & order.settled[:, seed, None]).any(0)
        moving = np.flatnonzero(order.moving[:, seed])
        for head in moving[np.argsort(order.position[moving, seed])].tolist():
            for mode in np.flatnonzero(order.held[head, :, seed]).tolist():
                free = _same(standing, mode) & ~taken
                taken[mode] = True
                every = (*moments, felt.velocity)
                _mirror(standing, felt, head, free, mode, seed, every)


def _same(standing: Standing, mode: int) -> Bool[np.ndarray, " D"]:
    return np.asarray(standing.modes.same_eigenspace[mode] > 0)


def _mirror(
    standing: Standing,
    felt: Felt,
    head: int,
    among: Bool[np.ndarray, " D"],
    mode: int,
    seed: int,
    moments: Sequence[FloatArray],
) -> None:
    """Turn modes of one eigenspace so that a head's leading direction is that of a mode."""
    free = np.flatnonzero(among)
    if free.size < 2:
        return
    keys, queries = felt.beside[head, :, :, free, seed].transpose(1, 2, 0)
    block = felt.value[head, seed] * keys.T @ queries
    direction = np.linalg.eigh(block + block.T)[1][:, -1]
    direction *= np.where(direction[free == mode] < 0, -1.0, 1.0)
    across = direction - (free == mode)
    if (size := float(across @ across)) < 1e-24:
        return
    mirror = np.eye(free.size) - 2 * np.outer(across, across) / size
    for moment in moments:
        for part in standing.heads.parts(moment)[1:]:
            part[:, :, free, seed] = part[:, :, free, seed] @ mirror
    felt.beside[..., free, seed] = felt.beside[..., free, seed] @ mirror
