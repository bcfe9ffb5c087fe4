r"""Measures of how many directions a matrix uses, from its singular values (THEORY section 7).

Every measure takes matrices [..., m, n], or a `FactoredMatrix` of such a shape, and gives an array
[...]. Singular values below $\max(m, n)\,\varepsilon\,\sigma_1$ are rounding and count as zero. The
zero matrix has rank 0 by each measure. A `FactoredMatrix` keeps its singular values, so that
several measures of one object decompose it once.
"""

from __future__ import annotations

from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Array, Measured, above_rounding, namespace
from saddlescope.measure._factored import FactoredMatrix, Matrices, checked_matrices


def singular_values(matrices: Matrices) -> Array:
    r"""The singular values [..., i] of matrices [..., m, n], largest first.

    There are min(m, n) of them; a `FactoredMatrix` of inner size r gives the min(m, r, n) that
    need not be zero, from its factors.

    >>> singular_values([[0, 2], [3, 0]]).round(12).tolist()
    [3.0, 2.0]
    """
    (known,) = checked_matrices(matrices=matrices)
    if isinstance(known, FactoredMatrix):
        return known.singular_values()
    return namespace(known).linalg.svdvals(known)


def effective_rank(matrices: Matrices) -> Measured:
    r"""The exponential of the entropy of the normalised singular values (Roy and Vetterli).

    $\exp(-\sum_i p_i \ln p_i)$ with $p_i = \sigma_i/\sum_j\sigma_j$ and $0 \ln 0 = 0$ (THEORY
    section 7): n for n equal singular values, 1 for rank one, 0 for the zero matrix.

    >>> import numpy as np
    >>> effective_rank(np.diag([1., 1., 0.])).round(12).item()
    2.0
    """
    return _exponential_entropy(_normalised(matrices))


def marginalised_effective_rank(matrices: Matrices, leading: object = 1) -> Measured:
    r"""The effective rank of what is left when the `leading` largest singular values are deleted.

    It shows the growth of further directions beside a dominant one (THEORY section 7). What is
    left may be zero, as in a matrix of rank `leading`: its rank is 0.

    >>> import numpy as np
    >>> marginalised_effective_rank(np.diag([100., 1., 1.])).round(12).item()
    2.0
    """
    values = _normalised(matrices)
    deleted = whole_number("leading", leading, at_least=0)
    if deleted >= values.shape[-1]:
        allowed = f"must be less than the number of singular values, {values.shape[-1]}"
        raise InvalidInput("leading", leading, allowed)
    return _exponential_entropy(values[..., deleted:])


def stable_rank(matrices: Matrices) -> Measured:
    r"""The stable rank $\|M\|_F^2/\|M\|_2^2$ (THEORY section 7); 0 for the zero matrix.

    >>> import numpy as np
    >>> stable_rank(np.diag([2., 1., 1.])).item()
    1.5
    """
    values = _normalised(matrices)
    return namespace(values).sum(values**2, axis=-1)


def participation_ratio(matrices: Matrices) -> Measured:
    r"""The participation ratio $(\sum_i\sigma_i^2)^2/\sum_i\sigma_i^4$; 0 for the zero matrix.

    >>> import numpy as np
    >>> participation_ratio(np.diag([3., 3., 0.])).item()
    2.0
    """
    squares = _normalised(matrices) ** 2
    xp = namespace(squares)
    fourth = xp.sum(squares**2, axis=-1)
    return xp.sum(squares, axis=-1) ** 2 / xp.where(fourth > 0, fourth, 1.0)


def _normalised(matrices: Matrices) -> Array:
    """Singular values over the largest, so that no power of them overflows; rounding is zero."""
    (known,) = checked_matrices(matrices=matrices)
    values = singular_values(known)
    xp, largest = namespace(values), values[..., :1]
    values = xp.where(above_rounding(values, tuple(known.shape)), values, 0.0)
    return values / xp.where(largest > 0, largest, 1.0)


def _exponential_entropy(values: Array) -> Measured:
    xp = namespace(values)
    total = xp.sum(values, axis=-1, keepdims=True)
    shares = values / xp.where(total > 0, total, 1.0)
    entropy = -xp.sum(shares * xp.log(xp.where(shares > 0, shares, 1.0)), axis=-1)
    return xp.where(total[..., 0] > 0, xp.exp(entropy), 0.0)
