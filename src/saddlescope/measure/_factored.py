"""Matrices of low rank, kept as the product of their two factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import (
    Array,
    Measured,
    Numbers,
    frobenius,
    is_tensor,
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

    @cached_property
    def core(self) -> Array:
        """The small matrix [..., min(m, r), min(n, r)] with the same singular values."""
        return triangle(self.left) @ triangle(self.right.mT).mT

    @cached_property
    def _singular_values(self) -> Array:
        return namespace(self.left).linalg.svdvals(self.core)


Matrices = Numbers | Array | FactoredMatrix
"""Matrices [..., m, n], or their factors."""


def checked_matrices(**given: Matrices) -> list[Array | FactoredMatrix]:
    """The matrices given by name, factored ones as they are."""
    return [
        value if isinstance(value, FactoredMatrix) else real_arrays(2, **{name: value})[0]
        for name, value in given.items()
    ]


def triangle(tall: Array) -> Array:
    """The triangular factor of a thin QR decomposition."""
    factors = namespace(tall).linalg.qr(tall, mode="r")
    return factors[1] if is_tensor(tall) else factors
