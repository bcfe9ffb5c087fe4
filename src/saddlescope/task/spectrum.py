"""A covariance as its eigenvalues and its eigenvectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saddlescope.arrays import is_diagonal, product
from saddlescope.checks import FloatArray, number, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.running.memory import check_memory
from saddlescope.setting.kinds import kind

# Eigenvalues closer than this share of the largest count as one eigenvalue.
SAME_EIGENVALUE = 1e-9

# Beyond it the eigenvectors alone would take gigabytes.
_MOST_DIMENSIONS = 10_000
# The eigenvectors, their sorted copy, and a covariance that is made of them.
_COPIES = 4


@kind("value", "spectrum")
@dataclass(frozen=True, eq=False, init=False)
class Spectrum:
    r"""A covariance $\Lambda = \sum_d \lambda_d e_d e_d^\top$, eigenvalues in falling order.

    `eigenvalues[D]` may be given in any order: they belong to the columns of `basis[D, D]`, or to
    the coordinate axes when no basis is given, and both are sorted together.

    >>> Spectrum([.1, .4]).eigenvalues.tolist()
    [0.4, 0.1]
    >>> Spectrum([.1, .4]).matrix.tolist()
    [[0.1, 0.0], [0.0, 0.4]]
    """

    eigenvalues: FloatArray
    basis: FloatArray

    def __init__(self, eigenvalues: object, basis: object = None) -> None:
        values = real_array("spectrum", eigenvalues, (None,))
        if values.size == 0:
            raise InvalidInput("spectrum", eigenvalues, "must hold at least one eigenvalue")
        if values.size > _MOST_DIMENSIONS:
            most = f"must hold at most {_MOST_DIMENSIONS} eigenvalues"
            raise InvalidInput("spectrum", f"{values.size} eigenvalues", most)
        if (values < 0).any():
            raise InvalidInput("spectrum", eigenvalues, "eigenvalues must not be negative")
        if not (values > 0).any():
            raise InvalidInput("spectrum", eigenvalues, "at least one eigenvalue must be positive")
        dimension = values.size
        # Before the eigenvectors are there.
        check_memory(_COPIES * dimension**2, {"spectrum": dimension}, "take fewer dimensions")
        vectors: FloatArray = np.eye(dimension)
        if basis is not None:
            given = real_array("basis", basis, (dimension, dimension))
            if not np.allclose(given.T @ given, vectors, atol=1e-10):
                raise InvalidInput("basis", basis, "its columns must be orthonormal")
            vectors = given
        order = np.argsort(-values, kind="stable")
        vars(self).update(eigenvalues=_frozen(values[order]), basis=_frozen(vectors[:, order]))

    @classmethod
    def from_matrix(cls, matrix: object, field: str = "covariance") -> Spectrum:
        """The spectrum of a symmetric, positive semi-definite `matrix[D, D]`."""
        array = real_array(field, matrix, (None, None))
        if array.shape[0] != array.shape[1] or array.size == 0:
            raise InvalidInput(f"{field}.shape", array.shape, "must be square")
        scale = np.abs(array).max()
        if not np.allclose(array, array.T, atol=1e-10 * scale, rtol=0):
            raise InvalidInput(field, matrix, "must be symmetric")
        values, vectors = np.linalg.eigh((array + array.T) / 2)
        if values[0] < -1e-10 * scale:
            raise InvalidInput(
                field, matrix, f"must have no negative eigenvalue, the least is {values[0]:.3g}"
            )
        if np.count_nonzero(array - np.diag(np.diagonal(array))) == 0:
            return cls(np.diagonal(array))
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def white(cls, dimension: int, variance: float = 1.0) -> Spectrum:
        """All `dimension` eigenvalues equal to `variance`."""
        size = whole_number("dimension", dimension, at_most=_MOST_DIMENSIONS)
        return cls(np.full(size, number("variance", variance, above=0.0)))

    @classmethod
    def power_law(cls, dimension: int, exponent: float = 1.0, trace: float = 1.0) -> Spectrum:
        r"""Eigenvalues $\lambda_d \propto d^{-\text{exponent}}$ that sum to `trace`.

        >>> Spectrum.power_law(2, exponent=1, trace=3).eigenvalues.tolist()
        [2.0, 1.0]
        """
        size = whole_number("dimension", dimension, at_most=_MOST_DIMENSIONS)
        values = np.arange(1, size + 1) ** -number("exponent", exponent, at_least=0.0)
        return cls(values * (number("trace", trace, above=0.0) / values.sum()))

    @classmethod
    def parse(cls, text: str) -> Spectrum:
        """Read `.4,.3,.2,.1`, `white:D[:variance]` or `power:D[:exponent[:trace]]`."""
        makers: dict[str, Callable[..., Spectrum]] = {"white": cls.white, "power": cls.power_law}
        name, *numbers = text.strip().split(":")
        try:
            if name in makers and 1 <= len(numbers) <= (2 if name == "white" else 3):
                return makers[name](int(numbers[0]), *map(float, numbers[1:]))
            values = [float(part) for part in text.split(",")]
        except InvalidInput as wrong:
            raise InvalidInput("spectrum", text, f"its {wrong.field} {wrong.allowed}") from None
        except ValueError:
            raise InvalidInput(
                "spectrum", text, "must be like .4,.3,.2,.1 or white:4 or power:8:1"
            ) from None
        return cls(values)

    @classmethod
    def make(cls, value: object, field: str = "spectrum") -> Spectrum:
        """A spectrum from a `Spectrum`, text, eigenvalues, or a matrix."""
        if isinstance(value, Spectrum):
            return value
        try:
            if isinstance(value, str):
                return cls.parse(value)
            array = real_array(field, value)
            if array.ndim == 2:
                return cls.from_matrix(array, field)
            if array.ndim == 1:
                return cls(value)
        except InvalidInput as wrong:
            if wrong.field != "spectrum":
                raise
            raise InvalidInput(field, wrong.value, wrong.allowed) from None
        raise InvalidInput(field, value, "must be eigenvalues [D] or a covariance [D, D]")

    @classmethod
    def choose(cls, spectrum: object, covariance: object) -> Spectrum:
        """The spectrum from whichever of the two arguments is given."""
        if (spectrum is None) == (covariance is None):
            raise InvalidInput("spectrum", spectrum, "give spectrum or covariance, one of the two")
        return cls.make(spectrum) if covariance is None else cls.from_matrix(covariance)

    def written(self) -> object:
        """The eigenvalues alone, where they belong to the coordinate axes in order."""
        return self.eigenvalues if self.is_in_order else self

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.eigenvalues.size)

    @property
    def trace(self) -> float:
        """The sum of the eigenvalues."""
        return float(self.eigenvalues.sum())

    @property
    def matrix(self) -> FloatArray:
        """The covariance itself, [D, D]."""
        return product(self.basis * self.eigenvalues, self.basis.T)

    @property
    def root(self) -> FloatArray:
        r"""$\Lambda^{1/2}$ up to a rotation, [D, D]: it makes white vectors ones of this law."""
        return self.basis * np.sqrt(self.eigenvalues)

    def colour(self, white: FloatArray) -> FloatArray:
        """White vectors along the eigenvectors, `[..., D]`, made ones of this covariance."""
        scaled: FloatArray = white * np.sqrt(self.eigenvalues)
        return scaled if self.is_in_order else scaled @ self.basis.T

    @property
    def is_axis_aligned(self) -> bool:
        """Whether the eigenvectors are coordinate axes."""
        return bool(np.isin(np.abs(self.basis), (0.0, 1.0)).all())

    @property
    def is_in_order(self) -> bool:
        """Whether the eigenvectors are the coordinate axes in their order."""
        return np.array_equal(self.basis, np.eye(self.dimension))

    @property
    def eigenspaces(self) -> tuple[tuple[int, ...], ...]:
        """The indices of equal eigenvalues, grouped, in falling order.

        >>> Spectrum([.3, .3, .2]).eigenspaces
        ((0, 1), (2,))
        """
        return group_equal(self.eigenvalues)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Spectrum)
            and np.array_equal(self.eigenvalues, other.eigenvalues)
            and np.array_equal(self.basis, other.basis)
        )

    def __hash__(self) -> int:
        return hash((self.eigenvalues.tobytes(), self.basis.tobytes()))

    def __repr__(self) -> str:
        values = ", ".join(f"{value:.4g}" for value in self.eigenvalues[:8])
        more = ", …" if self.dimension > 8 else ""
        return f"Spectrum([{values}{more}]{'' if self.is_axis_aligned else ', rotated'})"


def group_equal(values: FloatArray, scale: float | None = None) -> tuple[tuple[int, ...], ...]:
    """Indices of sorted values, grouped where they agree within `SAME_EIGENVALUE` times `scale`."""
    largest = float(np.abs(values).max()) if scale is None else scale
    breaks = np.flatnonzero(np.abs(np.diff(values)) > SAME_EIGENVALUE * largest) + 1
    return tuple(tuple(int(i) for i in group) for group in np.split(np.arange(values.size), breaks))


def common_basis(matrices: list[FloatArray]) -> FloatArray | None:
    """An orthonormal basis in which all symmetric matrices are diagonal, or None.

    The first matrix's eigenvalues are in falling order along it. Inside a repeated eigenvalue of
    the earlier matrices the later ones choose the directions.
    """
    dimension = matrices[0].shape[0]
    basis = np.eye(dimension)
    blocks: list[tuple[int, ...]] = [tuple(range(dimension))]
    for matrix in matrices:
        refined: list[tuple[int, ...]] = []
        rotated = product(product(basis.T, matrix), basis)
        for block in blocks:
            if len(block) == 1:
                refined.append(block)
                continue
            columns = list(block)
            inner = rotated[np.ix_(columns, columns)]
            if is_diagonal(inner):
                # A diagonal block keeps its axes: eigh could swap or flip them.
                order = np.argsort(-np.diagonal(inner), kind="stable")
                values, vectors = np.diagonal(inner)[order], np.eye(len(columns))[:, order]
            else:
                values, vectors = np.linalg.eigh(inner)
                values, vectors = values[::-1], vectors[:, ::-1]
            basis[:, columns] = basis[:, columns] @ vectors
            groups = group_equal(values, scale=float(np.abs(matrix).max()))
            refined += [tuple(columns[i] for i in group) for group in groups]
        blocks = refined
    for matrix in matrices:
        rotated = product(product(basis.T, matrix), basis)
        off_diagonal = rotated - np.diag(np.diagonal(rotated))
        if np.abs(off_diagonal).max() > 1e-9 * np.abs(matrix).max():
            return None
    return basis


def _frozen(array: FloatArray) -> FloatArray:
    copy = np.ascontiguousarray(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy
