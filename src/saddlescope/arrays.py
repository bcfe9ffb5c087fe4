"""Arrays of NumPy and of JAX under one name: formulas use what both offer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

Array: TypeAlias = Any
"""A NumPy or a JAX array; their operators are the same, their types have no common base."""

Weights: TypeAlias = dict[str, Array]
"""Named weight arrays; a leading seed axis in ensembles."""

# Up to this many products a broadcast-multiply-sum, which XLA fuses into one loop, beats the call
# into a matrix multiplication (measured on a CPU: 0.1 against 0.7 µs a step at D = 4, H = 5).
_FUSED_PRODUCTS = 640
# Arrays of up to so many numbers are shown in full.
_SHOWN = 8


def namespace(*arrays: Array) -> ModuleType:
    """The module that computes with these arrays: `jax.numpy` where one of them is JAX's.

    >>> namespace(np.ones(2)).__name__
    'numpy'
    """
    for array in arrays:
        if not isinstance(array, np.ndarray | np.generic | float | int):
            return array.__array_namespace__()
    return np


def product(left: Float[np.ndarray, "D D"], right: Float[np.ndarray, "D D"]) -> np.ndarray:
    """Two square matrices multiplied, in $D^2$ steps where one of them is diagonal.

    >>> product(np.diag([2.0, 3.0]), np.ones((2, 2))).tolist()
    [[2.0, 2.0], [3.0, 3.0]]
    """
    if is_diagonal(left):
        return np.diagonal(left)[:, None] * right
    if is_diagonal(right):
        return left * np.diagonal(right)
    return left @ right


def diagonal_matrix(values: Float[Array, " D"]) -> Float[Array, "D D"]:
    """The square matrix with these values on its diagonal.

    >>> diagonal_matrix(np.array([2.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return namespace(values).diag(values)


def is_diagonal(matrix: Float[np.ndarray, "D D"]) -> bool:
    """Whether all that a matrix holds is on its diagonal.

    >>> is_diagonal(np.eye(2)), is_diagonal(np.ones((2, 2)))
    (True, False)
    """
    return bool(np.count_nonzero(matrix) == np.count_nonzero(np.diagonal(matrix)))


def outer_sum(left: Float[Array, "J D"], right: Float[Array, "J D"]) -> Float[Array, "D D"]:
    r"""$\sum_j a_j b_j^\top$, as one fused loop where that is faster."""
    pairs, dimension = left.shape
    if pairs * dimension**2 <= _FUSED_PRODUCTS:
        return (left[:, :, None] * right[:, None, :]).sum(0)
    return left.T @ right


def apply_to_rows(rows: Float[Array, "J D"], matrix: Float[Array, "D D"]) -> Float[Array, "J D"]:
    r"""$M a_j$ for every row $a_j$, as one fused loop where that is faster."""
    pairs, dimension = rows.shape
    if pairs * dimension**2 <= _FUSED_PRODUCTS:
        return (rows[:, None, :] * matrix[None, :, :]).sum(-1)
    return rows @ matrix.T


def whitened_triples(
    drive: Float[np.ndarray, "D D"], left: Float[np.ndarray, "D D"], right: Float[np.ndarray, "D D"]
) -> tuple[Float[np.ndarray, "D D"], Float[np.ndarray, " D"], Float[np.ndarray, "D D"]]:
    r"""$B^{-1/2} C A^{-1/2} = \sum_d\sigma_d l_d r_d^\top$ with B left and A right of the drive C.

    The columns $B^{-1/2}l_d$, the singular values in falling order, and the columns
    $A^{-1/2}r_d$ (T19). Inverses are taken on the ranges of B and A, and what rounding alone would
    make is zero. $\sum_{d\le m}\sigma_d B^{-1/2}l_d r_d^\top A^{-1/2}$ is the map W of rank m
    that is least in $\mathrm{tr}(W^\top B W A) - 2\langle W, C\rangle$ (Eckart and Young).

    >>> left, values, right = whitened_triples(np.diag([6.0, 1.0]), np.diag([4.0, 1.0]), np.eye(2))
    >>> values.tolist(), np.abs(left).tolist()
    ([3.0, 1.0], [[0.5, 0.0], [0.0, 1.0]])
    """
    first, second = _inverse_root(left), _inverse_root(right)
    inner, values, outer = np.linalg.svd(first @ drive @ second)
    # Each product rounds at this share of its factors' sizes.
    sizes = [np.linalg.norm(factor, 2) for factor in (first, drive, second)]
    noise = len(drive) * np.finfo(float).eps * np.prod(sizes)
    return first @ inner, np.where(values > noise, values, 0.0), second @ outer.T


def _inverse_root(matrix: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """$A^{-1/2}$ on the range of a matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    present = values > len(values) * np.finfo(float).eps * values[-1]
    return (vectors[:, present] * values[present] ** -0.5) @ vectors[:, present].T


def nan_padded(
    rows: Sequence[Sequence[float | None]], width: int
) -> Float[np.ndarray, "rows width"]:
    """Rows of one width, NaN where there is nothing.

    >>> nan_padded([[1.0, None], [2.0]], 2).tolist()
    [[1.0, nan], [2.0, nan]]
    """
    table = np.full((len(rows), width), np.nan)
    for index, row in enumerate(rows):
        table[index, : len(row)] = np.array(row, dtype=float)
    return table


class BriefRepr:
    """A dataclass that shows long arrays by their type and shape alone."""

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={_brief(getattr(self, field.name))}"
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if field.repr
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _brief(value: object) -> str:
    """A value as text: `[0.4, 0.3]` where an array is short, else such as `float64[401, 4]`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_brief(item)}" for name, item in value.items()) + "}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.ndim == 1 and value.size <= _SHOWN:
        return "[" + ", ".join(map(_brief, value.tolist())) + "]"
    return _brief(value.item()) if value.ndim == 0 else f"{value.dtype}{list(value.shape)}"


def vectorise(matrix: Float[Array, "*S D D"]) -> Float[Array, "*S DD"]:
    """Stack the columns of a matrix: the order of the cubic feature (T4)."""
    return matrix.swapaxes(-1, -2).reshape(*matrix.shape[:-2], -1)


def unvectorise(vector: Float[Array, "*S DD"]) -> Float[Array, "*S D D"]:
    """The matrix whose stacked columns are the vector (T4)."""
    dimension = round(vector.shape[-1] ** 0.5)
    return vector.reshape(*vector.shape[:-1], dimension, dimension).swapaxes(-1, -2)
