"""Distances between the directions that two matrices use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import BriefRepr
from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import (
    Array,
    Measured,
    above_rounding,
    amplitude,
    frobenius,
    namespace,
    real_arrays,
)
from saddlescope.measure._factored import (
    FactoredMatrix,
    Matrices,
    SingularVectors,
    checked_matrices,
    triangle,
)


@dataclass(frozen=True, eq=False, repr=False)
class SubspaceDistance(BriefRepr):
    """Distances, and where they are meaningless.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> one, other = np.diag([1., 0, 0]), np.diag([0, 1., 0])
    >>> distance = ss.measure.subspace_distance(one, other)
    >>> float(distance.value), bool(distance.degenerate)
    (1.0, False)
    """

    value: Measured
    """From 0 (the final row space lies in the current one) to 1 (they are orthogonal)."""
    degenerate: Array | np.bool_
    """True where the current matrix has full column rank: the distance is 0 whatever it is."""


def subspace_distance(current: Matrices, final: Matrices, *, k: object = None) -> SubspaceDistance:
    r"""How much of `final` no linear map can make out of `current` (THEORY section 7).

    $$\min_A\frac{\|A M(t) - M(\infty)\|_F}{\|M(\infty)\|_F}
      = \frac{\|M(\infty)(I - M(t)^+M(t))\|_F}{\|M(\infty)\|_F}$$
    for `current` M(t) [..., m, n] and `final` M(∞) [..., l, n], arrays or factored matrices (whose
    product is not formed). Leading axes broadcast: `current` may have a time axis in front. With
    `k`, M(t) is cut to its k leading singular vectors (no unique choice where the k-th and the next
    singular value are equal), and M(∞) is not: the distance of a matrix to itself is then the share
    of it that lies beyond them, $\sqrt{\sum_{i>k}\sigma_i^2/\sum_i\sigma_i^2}$, the least that any
    space of k dimensions has. `principal_angles` treats both alike, and is 0 there.

    Singular values of M(t) below $\max(m, n)\,\varepsilon\,\sigma_1$ count as zero. A matrix of
    full column rank reaches everything, so that its distance is 0 and is marked `degenerate`: the
    measure is meant for matrices of limited rank, as the circuits of a head, or for a choice of
    `k`. The distance to M(∞) = 0 is 0.

    >>> course = np.array([[[1., 0., 0.]], [[1., 1., 0.]], [[0., 2., 0.]]])  # one row each
    >>> distance = subspace_distance(course, course[-1])
    >>> distance.value.round(3).tolist(), distance.degenerate.tolist()
    ([1.0, 0.707, 0.0], [False, False, False])
    >>> matrix = np.diag([2., 1., 1.])
    >>> subspace_distance(matrix, matrix, k=1).value.round(3).item()  # the root of 2/6
    0.577
    >>> principal_angles(matrix, matrix, k=1).item()
    0.0
    """
    now, end = _pair(current=current, final=final)
    columns = now.shape[-1]
    vectors = _row_space(now, k)
    target = triangle(end.left) @ end.right if isinstance(end, FactoredMatrix) else end
    target = target / amplitude(target)
    xp = namespace(target)
    rest = target - (target @ vectors.Vh.mT) @ vectors.Vh
    norm = frobenius(target)
    degenerate = xp.sum(vectors.S > 0, axis=-1) == columns
    value = frobenius(rest) / xp.where(norm > 0, norm, 1.0)
    degenerate = xp.broadcast_to(degenerate, value.shape)
    return SubspaceDistance(xp.where(degenerate, 0.0, value), degenerate)


def principal_angles(a: Matrices, b: Matrices, k: object) -> Array:
    r"""The principal angles [..., k] of the leading k-dimensional row spaces, smallest first.

    `a` [..., m, n] and `b` [..., l, n] are arrays or factored matrices; their spaces are spanned by
    the k leading right singular vectors $V_a, V_b$. Angles in radians: the arc cosines of the
    singular values of $V_a^\top V_b$, or where those exceed $\sqrt{1/2}$ the arc sines of those of
    $(I - V_aV_a^\top)V_b$, since a cosine near 1 has lost the angle to rounding (Björck and Golub).
    NaN where a matrix has fewer than k singular values above $\max(m, n)\,\varepsilon\,\sigma_1$:
    there is no such space.

    >>> turned = np.array([[1., 1e-9, 0.], [0., 0., 1.]])
    >>> principal_angles(np.array([[1., 0., 0.], [0., 0., 1.]]), turned, k=2).tolist()
    [0.0, 1e-09]
    """
    first, second = (_row_space(one, k) for one in _pair(a=a, b=b))
    xp, linalg = namespace(first.Vh), namespace(first.Vh).linalg
    overlap = first.Vh @ second.Vh.mT
    cosines = xp.clip(linalg.svdvals(overlap), 0.0, 1.0)
    rest = second.Vh.mT - first.Vh.mT @ overlap
    sines = xp.clip(xp.flip(linalg.svdvals(rest), (-1,)), 0.0, 1.0)
    angles = xp.where(cosines**2 >= 0.5, xp.arcsin(sines), xp.arccos(cosines))
    exists = (first.S[..., -1:] > 0) & (second.S[..., -1:] > 0)
    return xp.where(exists, angles, xp.nan)


def subspace_drift(series: Matrices, k: object) -> Array:
    r"""How far the leading row space turns between successive checkpoints.

    For `series[T, ..., m, n]` an array [T - 1, ...]: the root mean square of the sines of the k
    principal angles of checkpoints i and i + 1, from 0 (the same space) to 1 (orthogonal spaces).
    NaN where there is no space of k dimensions, as in `principal_angles`, which gives the angles
    themselves: `principal_angles(series[:-1], series[1:], k)`.

    >>> angles = np.array([0., .1, .3])
    >>> rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None, :]
    >>> np.arcsin(subspace_drift(rows, k=1)).round(12).tolist()
    [0.1, 0.2]
    """
    (whole,) = checked_matrices(series=series)
    if len(whole.shape) < 3 or whole.shape[0] < 2:
        allowed = "must be [T, ..., m, n] with two checkpoints or more"
        raise InvalidInput("series.shape", tuple(whole.shape), allowed)
    before, now = (_row_space(one, k) for one in (whole[:-1], whole[1:]))
    return turned(before.Vh, now.Vh)


def turned(before: Array, now: Array) -> Array:
    r"""The root mean square of the sines of the principal angles of two spaces [..., k, n].

    Their rows are orthonormal, or zero where there is no space of k dimensions, which gives NaN.
    With $\sum_i\sin^2\theta_i = \|V_b - V_b V_a^\top V_a\|_F^2$ no angle need be known.

    >>> turned(np.array([[1.0, 0.0]]), np.array([[0.8, 0.6]])).round(12).item()
    0.6
    """
    xp, count = namespace(now), now.shape[-2]
    rest = now - (now @ before.mT) @ before
    sines = xp.sqrt(xp.sum(rest**2, axis=(-2, -1)) / count)
    # A row of no space is zero, and one of a space has length 1.
    lengths = [xp.amin(xp.sum(one**2, axis=-1), -1) for one in (before, now)]
    return xp.where((lengths[0] > 0.5) & (lengths[1] > 0.5), sines, xp.nan)


def _pair(**given: Matrices) -> list[Array | FactoredMatrix]:
    """Two matrices with as many columns, of one kind, precision and device."""
    (first, second), (one, other) = given, checked_matrices(**given)
    if one.shape[-1] != other.shape[-1]:
        allowed = f"must have {one.shape[-1]} columns, as {first} has"
        raise InvalidInput(f"{second}.shape", tuple(other.shape), allowed)
    try:
        np.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    except ValueError:
        allowed = f"must have leading axes that broadcast with {tuple(one.shape[:-2])}"
        raise InvalidInput(f"{second}.shape", tuple(other.shape), allowed) from None
    flat = real_arrays(
        **{f"one_{i}": part for i, part in enumerate(_parts(one))},
        **{f"other_{i}": part for i, part in enumerate(_parts(other))},
    )
    size = len(_parts(one))
    return [_joined(flat[:size]), _joined(flat[size:])]


def _parts(matrix: Array | FactoredMatrix) -> tuple[Array, ...]:
    return (matrix.left, matrix.right) if isinstance(matrix, FactoredMatrix) else (matrix,)


def _joined(parts: list[Array]) -> Array | FactoredMatrix:
    return FactoredMatrix(*parts) if len(parts) == 2 else parts[0]


def _row_space(matrices: Array | FactoredMatrix, k: object) -> SingularVectors:
    """Singular vectors, the first k if that is given, zero where the singular value is."""
    if isinstance(matrices, FactoredMatrix):
        u, s, vh = matrices.svd()
    else:
        u, s, vh = namespace(matrices).linalg.svd(matrices, full_matrices=False)
    count = s.shape[-1] if k is None else whole_number("k", k)
    if count > s.shape[-1]:
        allowed = f"must be at most {s.shape[-1]}, the number of singular values"
        raise InvalidInput("k", k, allowed)
    xp = namespace(s)
    real = above_rounding(s, tuple(matrices.shape))
    s, vh = xp.where(real, s, 0.0), xp.where(real[..., None], vh, 0.0)
    return SingularVectors(u[..., :count], s[..., :count], vh[..., :count, :])
