"""Matrices of low rank, kept as the product of their two factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlescope.checks import is_tensor
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import (
    Array,
    Measured,
    Numbers,
    above_rounding,
    frobenius,
    namespace,
    real_arrays,
)


class SingularVectors(NamedTuple):
    """A thin singular value decomposition, `U @ diag(S) @ Vh`."""

    U: Array
    S: Array
    Vh: Array


@dataclass(frozen=True, eq=False, repr=False)
class FactoredMatrix:
    r"""The product of `left[..., m, r]` and `right[..., r, n]`, which is not formed.

    With thin QR decompositions $L = Q_L R_L$ and $R^\top = Q_R R_R$ the product is
    $Q_L (R_L R_R^\top) Q_R^\top$, and its singular values are those of the small core in the
    middle (THEORY section 7): O((m + n) r²) in place of O(m n min(m, n)), and without the noise
    that a formed product has in place of its zero singular values. The decomposition is made once
    for each object. Leading axes broadcast.

    `@` with a matrix, factored or not, stays factored; with a vector it gives a vector. An index
    acts on the leading axes.

    >>> rng = np.random.default_rng(0)
    >>> matrix = FactoredMatrix(rng.normal(size=(8, 500, 4)), rng.normal(size=(8, 4, 300)))
    >>> matrix.shape, matrix.singular_values().shape
    ((8, 500, 300), (8, 4))
    >>> matrix[2] @ matrix[3].T
    FactoredMatrix(shape=(500, 500), inner=4)
    """

    left: Array
    right: Array

    # NumPy then leaves `array @ factored` to this class.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        left, right = real_arrays(2, left=self.left, right=self.right)
        if left.shape[-1] != right.shape[-2]:
            raise InvalidInput(
                "right.shape", tuple(right.shape), f"must be [..., {left.shape[-1]}, n], as left is"
            )
        try:
            np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:
            allowed = f"must have leading axes that broadcast with {tuple(left.shape[:-2])}"
            raise InvalidInput("right.shape", tuple(right.shape), allowed) from None
        vars(self).update(left=left, right=right)

    def __repr__(self) -> str:
        return f"FactoredMatrix(shape={self.shape}, inner={self.left.shape[-1]})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the product."""
        leading = np.broadcast_shapes(self.left.shape[:-2], self.right.shape[:-2])
        return (*leading, int(self.left.shape[-2]), int(self.right.shape[-1]))

    @property
    def ndim(self) -> int:
        """The number of axes of the product."""
        return len(self.shape)

    @property
    def T(self) -> FactoredMatrix:
        """The transposed matrices; leading axes stay."""
        return FactoredMatrix(self.right.mT, self.left.mT)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> FactoredMatrix:
        leading, given = self.shape[:-2], index if isinstance(index, tuple) else (index,)
        whole = () if any(part is Ellipsis for part in given) else (Ellipsis,)
        left, right = (
            namespace(factor).broadcast_to(factor, (*leading, *factor.shape[-2:]))
            for factor in (self.left, self.right)
        )
        chosen = (*given, *whole, slice(None), slice(None))
        return FactoredMatrix(left[chosen], right[chosen])

    def __matmul__(self, other: Numbers | FactoredMatrix) -> FactoredMatrix | Array:
        if isinstance(other, FactoredMatrix):
            left, right, first, last = real_arrays(
                left=self.left, right=self.right, other_left=other.left, other_right=other.right
            )
            self._check_columns(first)
            middle = right @ first
            if middle.shape[-2] <= middle.shape[-1]:
                return FactoredMatrix(left, middle @ last)
            return FactoredMatrix(left @ middle, last)
        left, right, array = real_arrays(left=self.left, right=self.right, other=other)
        self._check_columns(array)
        if array.ndim == 1:
            return (left @ (right @ array)[..., None])[..., 0]
        return FactoredMatrix(left, right @ array)

    def __rmatmul__(self, other: Numbers) -> FactoredMatrix | Array:
        (array,) = real_arrays(1, other=other)
        if array.ndim == 1:
            return self.T @ array
        transposed = self.T @ array.mT
        assert isinstance(transposed, FactoredMatrix)
        return transposed.T

    def _check_columns(self, other: Array) -> None:
        rows = other.shape[max(other.ndim - 2, 0)] if other.ndim else None
        if rows != self.shape[-1]:
            allowed = f"must fit a matrix of shape {self.shape}"
            raise InvalidInput("other.shape", tuple(other.shape), allowed)

    def product(self) -> Array:
        """The dense matrices [..., m, n]."""
        return self.left @ self.right

    def norm(self) -> Measured:
        """The Frobenius norm [...] of each matrix."""
        if "_left_vectors" in vars(self):
            return frobenius(self.singular_values()[..., None])
        return frobenius(self.core)

    def singular_values(self) -> Array:
        """The min(m, r, n) singular values [..., i] that need not be zero, largest first."""
        return self._singular_values

    def svd(self) -> SingularVectors:
        """`U[..., m, i]`, `S[..., i]` and `Vh[..., i, n]`, with i = 1 … min(m, r, n)."""
        linalg = namespace(self.left).linalg
        left, left_triangle = linalg.qr(self.left)
        right, right_triangle = linalg.qr(self.right.mT)
        u, s, vh = linalg.svd(left_triangle @ right_triangle.mT, full_matrices=False)
        return SingularVectors(left @ u, s, vh @ right.mT)

    def leading_rows(self, k: int) -> Array:
        r"""The right singular vectors [..., k, n] of the k largest singular values.

        From the left triangle alone: $v = (R_L R)^\top u/\sigma$ with the left singular vectors u
        of $R_L R$, so that no orthogonal factor of the model's size is made. Zero where the
        singular value is below $\max(m, n)\,\varepsilon\,\sigma_1$.

        >>> matrix = FactoredMatrix(np.array([[3.0], [4.0]]), np.array([[0.0, 2.0]]))
        >>> np.abs(matrix.leading_rows(1)).tolist()
        [[0.0, 1.0]]
        """
        xp, (u, s, reached) = namespace(self.left), self._left_vectors
        real = above_rounding(self.singular_values(), self.shape)[..., :k, None]
        scale = xp.where(real, s[..., :k, None], 1.0)
        rows = xp.where(real, (u[..., :k].mT @ reached) / scale, 0.0)
        return _halved(rows) if _through_doubles(self.left) else rows

    @cached_property
    def core(self) -> Array:
        """The small matrix [..., min(m, r), min(n, r)] with the same singular values."""
        return self._left_triangle @ triangle(self.right.mT).mT

    @cached_property
    def _left_triangle(self) -> Array:
        return triangle(self.left)

    @cached_property
    def _left_vectors(self) -> tuple[Array, Array, Array]:
        r"""The left singular vectors of $R_L R$, the singular values, and $R_L R$ itself.

        In single precision through the eigenvalues of $R_L R R^\top R_L^\top$ in double precision,
        several times faster, whose rounding stays below that of the input.
        """
        xp = namespace(self.left)
        if not _through_doubles(self.left):
            u, s, _ = xp.linalg.svd(self.core, full_matrices=False)
            return u, s, self._left_triangle @ self.right
        reached = _doubled(self._left_triangle) @ _doubled(self.right)
        squares, u = xp.linalg.eigh(reached @ reached.mT)
        count = min(reached.shape[-2:])
        u = xp.flip(u, (-1,))[..., :count]
        return u, xp.sqrt(xp.clip(xp.flip(squares, (-1,)), 0.0, None))[..., :count], reached

    @cached_property
    def _singular_values(self) -> Array:
        if "_left_vectors" in vars(self):
            values = self._left_vectors[1]
            return _halved(values) if _through_doubles(self.left) else values
        return namespace(self.left).linalg.svdvals(self.core)


Matrices = Numbers | Array | FactoredMatrix | Sequence[FactoredMatrix]
"""Matrices [..., m, n], or their factors, or a list of such factors."""


def checked_matrices(**given: Matrices) -> list[Array | FactoredMatrix]:
    """The matrices given by name, factored ones as they are, a list of them as one."""
    return [_checked(name, value) for name, value in given.items()]


def _checked(name: str, value: Matrices) -> Array | FactoredMatrix:
    if isinstance(value, FactoredMatrix):
        return value
    if isinstance(value, list | tuple) and any(isinstance(one, FactoredMatrix) for one in value):
        return _stacked(name, value)
    return real_arrays(2, **{name: value})[0]


def _stacked(name: str, matrices: Sequence[object]) -> FactoredMatrix:
    """Factored matrices of one shape as one, with a new axis in front."""
    shapes = {one.shape if isinstance(one, FactoredMatrix) else None for one in matrices}
    if len(shapes) > 1:
        shown = [getattr(one, "shape", type(one).__name__) for one in matrices]
        raise InvalidInput(name, shown, "must be factored matrices of one shape")
    lefts, rights = zip(*((one.left, one.right) for one in matrices), strict=True)  # type: ignore[attr-defined]
    return FactoredMatrix(*real_arrays(left=lefts, right=rights))


# From so many times as many rows as columns on, the Gram matrix is the faster way to a triangle.
_TALL = 4


def triangle(tall: Array) -> Array:
    """The triangular factor of a thin QR decomposition.

    Of a tall matrix in single precision it is the Cholesky factor of the Gram matrix in double
    precision, several times faster: its rounding, squared as it is, stays below that of the input.
    """
    xp, (rows, columns) = namespace(tall), tall.shape[-2:]
    if rows >= _TALL * columns and _through_doubles(tall):
        wide = _doubled(tall)
        try:
            return _halved(xp.linalg.cholesky(wide.mT @ wide).mT)
        except (np.linalg.LinAlgError, RuntimeError):
            # Columns that depend on one another, such as those of a head that is still zero.
            pass
    factors = xp.linalg.qr(tall, mode="r")
    return factors[1] if is_tensor(tall) else factors


def _through_doubles(array: Any) -> bool:
    """Whether it is in single precision on a device that has double."""
    has_doubles = not is_tensor(array) or array.device.type != "mps"
    return has_doubles and array.dtype.itemsize == 4


def _doubled(array: Any) -> Any:
    return array.double() if is_tensor(array) else array.astype(np.float64)


def _halved(array: Any) -> Array:
    return array.float() if is_tensor(array) else array.astype(np.float32)
