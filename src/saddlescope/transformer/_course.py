"""Measures of the weights at recorded steps: ranks, and subspace distances to the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from saddlescope.measure import (
    Circuits,
    FactoredMatrix,
    circuits,
    copying_scores,
    effective_rank,
    marginalised_effective_rank,
    subspace_distance,
)
from saddlescope.measure._arrays import Measured
from saddlescope.transformer._decoder import Arrays, DecoderShape, Positions

FACTORS = ("W_Q", "W_K", "W_V", "W_O")
_HEADS = ("layer", "head")
AXES: dict[str, tuple[str, ...]] = {
    "qk_effective_rank": _HEADS,
    "qk_marginal_rank": _HEADS,
    "qk_distance": _HEADS,
    "qk_drift": _HEADS,
    "ov_effective_rank": _HEADS,
    "ov_marginal_rank": _HEADS,
    "ov_distance": _HEADS,
    "ov_drift": _HEADS,
    "copying": _HEADS,
    "embedding_distance": (),
}


def kept_names(shape: DecoderShape) -> tuple[str, ...]:
    """The weights kept at every recorded step."""
    return (*FACTORS, "W_E", *(() if shape.tied else ("W_U",)))


def measure_course(shape: DecoderShape, records: Sequence[Arrays]) -> Arrays:
    """All measures of `AXES`, each [seed, step, …]; NaN where weights are not finite.

    Distances are NaN where they are degenerate: a circuit of full rank spans everything. The
    circuits are those of W_Q, W_K, W_V and W_O alone: gains of LayerNorm are not folded in, and
    with rotary positions QK is the one at distance 0.

    `records` hold the kept weights of all seeds, [seed, …], at every step; distances are to the
    last of them and drifts from the one before, which the first does not have.
    `embedding_distance` is that of the d_head leading directions of W_E. One step is measured at a
    time, so that no more than three are held in double precision.
    """
    last = _sound(records[-1])
    final, embedding = _circuits(shape, last), _leading(shape, last["W_E"])
    steps = list[Arrays]()
    before: Circuits | None = None
    for record in records:
        weights = _sound(record)
        now = _circuits(shape, weights)
        directions = _leading(shape, weights["W_E"])
        measured: dict[str, Measured] = {
            **_measure("qk", now.qk, None if before is None else before.qk, final.qk),
            **_measure("ov", now.ov, None if before is None else before.ov, final.ov),
            "copying": _copying(shape, weights),
            "embedding_distance": subspace_distance(directions, embedding).value,
        }
        steps.append(_finite(measured, record))
        before = now
    return {name: np.stack([step[name] for step in steps], axis=1) for name in AXES}


def _measure(
    name: str, now: FactoredMatrix, before: FactoredMatrix | None, final: FactoredMatrix
) -> dict[str, Measured]:
    distance = _distance(now, final)
    return {
        f"{name}_effective_rank": effective_rank(now),
        f"{name}_marginal_rank": marginalised_effective_rank(now, leading=1),
        f"{name}_distance": distance,
        f"{name}_drift": distance * np.nan if before is None else _distance(before, now),
    }


def _finite(measured: dict[str, Measured], record: Arrays) -> Arrays:
    """The measures, NaN for a seed whose weights are not finite."""
    each = [np.isfinite(array).reshape(len(array), -1).all(1) for array in record.values()]
    finite = np.all(each, axis=0)
    masks = {name: finite.reshape(-1, *[1] * len(axes)) for name, axes in AXES.items()}
    return {name: np.where(masks[name], value, np.nan) for name, value in measured.items()}


def _distance(
    current: FactoredMatrix, final: FactoredMatrix
) -> Float[np.ndarray, "seed layer head"]:
    distance = subspace_distance(current, final)
    return np.where(distance.degenerate, np.nan, distance.value)


def _circuits(shape: DecoderShape, weights: Arrays) -> Circuits:
    return circuits(
        *(weights[name] for name in FACTORS), rotary=shape.positions is Positions.rotary
    )


def _leading(
    shape: DecoderShape, embedding: Float[np.ndarray, "seed V D"]
) -> Float[np.ndarray, "seed K D"]:
    """The d_head leading directions of the embedding, as long as their singular values.

    As many as a head reads; the whole embedding spans nearly everything, and its distance to
    another would say nothing.
    """
    count = min(shape.d_head, *embedding.shape[-2:])
    # Of the Gram matrix, since vocabularies are long; only its largest eigenvalues are used.
    squares, directions = np.linalg.eigh(np.swapaxes(embedding, -1, -2) @ embedding)
    sizes = np.sqrt(np.maximum(squares[..., -count:], 0.0))
    return np.swapaxes(directions[..., -count:] * sizes[..., None, :], -1, -2)


def _copying(shape: DecoderShape, weights: Arrays) -> Float[np.ndarray, "seed layer head"]:
    """The copying score of every head of every seed; unembeddings may leave out some tokens."""
    seeds = range(len(weights["W_Q"]))
    each = [{name: array[seed] for name, array in weights.items()} for seed in seeds]
    unembedding = "W_E" if shape.tied else "W_U"
    scores = [
        copying_scores(_circuits(shape, one), one["W_E"][: shape.outputs].T, one[unembedding])
        for one in each
    ]
    return np.stack(scores)


def _sound(record: Arrays) -> Arrays:
    """In double precision, what is not finite put to zero."""
    return {
        name: np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        for name, array in record.items()
    }
