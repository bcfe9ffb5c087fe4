"""Covariances: how they are named, sorted, grouped and diagonalised together."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.errors import InvalidInput
from saddlescope.task import Spectrum
from saddlescope.task.spectrum import common_basis, group_equal

# Sums of a few products of numbers of order one, in float64.
ROUNDING = 1e-13


def rotation(dimension: int, seed: int = 0) -> np.ndarray:
    """A random orthonormal basis."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dimension, dimension)))[0]


def test_eigenvalues_are_sorted_together_with_their_vectors() -> None:
    basis = rotation(3)
    spectrum = Spectrum([0.2, 0.7, 0.1], basis)
    assert spectrum.eigenvalues.tolist() == [0.7, 0.2, 0.1]
    np.testing.assert_array_equal(spectrum.basis, basis[:, [1, 0, 2]])
    expected = basis @ np.diag([0.2, 0.7, 0.1]) @ basis.T
    np.testing.assert_allclose(spectrum.matrix, expected, atol=ROUNDING)


def test_without_a_basis_values_belong_to_the_axes_they_were_given_for() -> None:
    spectrum = Spectrum([0.1, 0.4, 0.2])
    np.testing.assert_array_equal(spectrum.matrix, np.diag([0.1, 0.4, 0.2]))
    assert spectrum.is_axis_aligned
    assert spectrum.trace == pytest.approx(0.7)
    assert spectrum.dimension == 3


def test_equal_eigenvalues_keep_their_order() -> None:
    np.testing.assert_array_equal(Spectrum([0.3, 0.3, 0.3]).basis, np.eye(3))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (".4,.3,.2,.1", [0.4, 0.3, 0.2, 0.1]),
        (" .1, .4 ", [0.4, 0.1]),
        ("2", [2.0]),
        ("white:3", [1.0, 1.0, 1.0]),
        ("white:2:.5", [0.5, 0.5]),
        ("power:3", [6 / 11, 3 / 11, 2 / 11]),
        ("power:2:0", [0.5, 0.5]),
        ("power:2:1:3", [2.0, 1.0]),
    ],
)
def test_text_names_a_spectrum(text: str, values: list[float]) -> None:
    np.testing.assert_allclose(Spectrum.parse(text).eigenvalues, values, rtol=1e-15)
    assert Spectrum.make(text) == Spectrum.parse(text)


@pytest.mark.parametrize("text", ["", "a,b", ".4;.3", "white", "white:2:1:1", "power:x", ".4,,.3"])
def test_text_that_names_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"spectrum = .*must be like \.4,\.3,\.2,\.1"):
        Spectrum.parse(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum([0.4, -0.1]), "spectrum = .*must not be negative"),
        (lambda: Spectrum([0.4, np.nan]), "spectrum = .*finite"),
        (lambda: Spectrum([0.0, 0.0]), "spectrum = .*at least one eigenvalue must be positive"),
        (lambda: Spectrum([]), "spectrum = .*at least one eigenvalue"),
        (lambda: Spectrum([[0.4], [0.3]]), r"spectrum\.shape = \(2, 1\): must be \(any,\)"),
        (lambda: Spectrum(["a"]), "spectrum = .*array of real numbers"),
        (lambda: Spectrum([1, 2], np.ones((2, 2))), "basis = .*orthonormal"),
        (lambda: Spectrum([1, 2], np.eye(3)), r"basis\.shape = \(3, 3\): must be \(2, 2\)"),
        (lambda: Spectrum.white(0), "dimension = 0: must be a whole number, at least 1"),
        (lambda: Spectrum.white(2, -1), "variance = -1: must be a finite number above 0"),
        (lambda: Spectrum.power_law(2, -1), "exponent = -1: must be a finite number, at least 0"),
        (lambda: Spectrum.from_matrix([[1, 2], [0, 1]]), "covariance = .*symmetric"),
        (lambda: Spectrum.from_matrix(np.ones((2, 3))), r"covariance\.shape = \(2, 3\).*square"),
        (lambda: Spectrum.from_matrix([[1, 2], [2, 1]]), "negative eigenvalue, the least is -1"),
        (lambda: Spectrum.make(np.ones((2, 2, 2)), "x"), "x = .*eigenvalues"),
    ],
)
def test_what_is_no_covariance_is_refused(make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        make()
    assert "\n" not in str(refusal.value)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_matrix_survives_being_taken_apart(dimension: int, seed: int) -> None:
    factor = np.random.default_rng(seed).standard_normal((dimension, dimension))
    matrix = factor @ factor.T
    spectrum = Spectrum.from_matrix(matrix)
    # eigh is backward stable: errors are a small multiple of the machine precision of the norm.
    scale = np.linalg.norm(matrix)
    np.testing.assert_allclose(spectrum.matrix, matrix, atol=1e-14 * dimension * scale)
    assert (np.diff(spectrum.eigenvalues) <= 0).all()
    assert (spectrum.eigenvalues >= 0).all()


def test_a_singular_matrix_has_no_negative_eigenvalue_by_rounding() -> None:
    direction = rotation(5)[:, :1]
    assert (Spectrum.from_matrix(direction @ direction.T).eigenvalues >= 0).all()


def test_a_diagonal_matrix_keeps_its_axes() -> None:
    spectrum = Spectrum.from_matrix(np.diag([0.1, 0.4, 0.4]))
    np.testing.assert_array_equal(spectrum.basis, np.eye(3)[:, [1, 2, 0]])
    assert spectrum == Spectrum([0.1, 0.4, 0.4])


def test_make_takes_whatever_names_a_spectrum() -> None:
    spectrum = Spectrum([0.4, 0.1])
    assert Spectrum.make(spectrum) is spectrum
    assert Spectrum.make([0.1, 0.4]) == Spectrum([0.1, 0.4])
    assert Spectrum.make(np.diag([0.4, 0.1])) == spectrum


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([0.4, 0.3, 0.2], ((0,), (1,), (2,))),
        ([0.3, 0.3, 0.2], ((0, 1), (2,))),
        ([0.3, 0.3 * (1 + 1e-12), 0.2, 0.2], ((0, 1), (2, 3))),
        ([0.3, 0.3 * (1 + 1e-6)], ((0,), (1,))),
        ([1.0], ((0,),)),
    ],
)
def test_eigenspaces_group_what_differs_by_rounding_only(values, groups) -> None:
    assert Spectrum(values).eigenspaces == groups


def test_a_scale_can_be_given_for_what_counts_as_equal() -> None:
    values = np.array([2e-10, 1e-10])
    assert group_equal(values) == ((0,), (1,))
    assert group_equal(values, scale=1.0) == ((0, 1),)


def test_spectra_are_values() -> None:
    first, second = Spectrum([0.4, 0.1]), Spectrum(np.array([0.4, 0.1]))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Spectrum([0.1, 0.4])
    assert first != "spectrum"
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.eigenvalues = np.ones(2)  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        first.eigenvalues[0] = 1.0


def test_the_array_that_was_given_stays_the_users() -> None:
    given_values = np.array([0.4, 0.1])
    spectrum = Spectrum(given_values)
    given_values[0] = 7.0
    assert spectrum.eigenvalues.tolist() == [0.4, 0.1]


def test_repr_tells_a_rotated_one() -> None:
    assert repr(Spectrum([0.1, 0.4])) == "Spectrum([0.4, 0.1])"
    assert "rotated" in repr(Spectrum([0.4, 0.1], rotation(2)))
    assert "…" in repr(Spectrum.white(9))


@pytest.mark.parametrize(
    "values",
    [
        # Repeated eigenvalues of the first are resolved by the second, and of both by the third.
        [[3.0, 3.0, 1.0, 1.0], [1.0, 2.0, 5.0, 5.0], [1.0, 1.0, 4.0, 2.0]],
        [[1.0, 1.0, 1.0, 1.0], [4.0, 3.0, 2.0, 1.0]],
        [[4.0, 3.0, 2.0, 0.0], [0.0, 0.0, 1.0, 1.0]],
    ],
)
def test_commuting_matrices_share_a_basis(values: list[list[float]]) -> None:
    basis = rotation(4, seed=2)
    matrices = [basis @ np.diag(diagonal) @ basis.T for diagonal in values]
    matrices = [(matrix + matrix.T) / 2 for matrix in matrices]
    shared = common_basis(matrices)
    assert shared is not None
    np.testing.assert_allclose(shared.T @ shared, np.eye(4), atol=ROUNDING)
    for matrix in matrices:
        rotated = shared.T @ matrix @ shared
        np.testing.assert_allclose(rotated, np.diag(np.diagonal(rotated)), atol=1e-12)
    first = np.diagonal(shared.T @ matrices[0] @ shared)
    assert (np.diff(first) <= 1e-12).all(), "the first matrix's eigenvalues fall along the basis"


def test_matrices_that_do_not_commute_share_none() -> None:
    basis = rotation(3, seed=1)
    tilted = basis @ np.diag([3.0, 2.0, 1.0]) @ basis.T
    assert common_basis([np.diag([3.0, 2.0, 1.0]), tilted]) is None
    # The white one commutes with both, and does not hide that they do not.
    assert common_basis([np.eye(3), np.diag([3.0, 2.0, 1.0]), tilted]) is None


def test_diagonal_matrices_keep_their_axes() -> None:
    shared = common_basis([np.diag([1.0, 3.0, 3.0]), np.diag([5.0, 1.0, 2.0])])
    np.testing.assert_array_equal(shared, np.eye(3)[:, [2, 1, 0]])
