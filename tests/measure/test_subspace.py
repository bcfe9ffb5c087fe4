"""Distances of subspaces against least squares and against SciPy."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.linalg import subspace_angles

from saddlescope.errors import InvalidInput
from saddlescope.measure import (
    FactoredMatrix,
    principal_angles,
    subspace_distance,
    subspace_drift,
)


def low_rank(rng, rows, columns, rank):
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))
def test_distance_is_what_least_squares_leaves(seed, rank, rows, final_rows):
    rng = np.random.default_rng(seed)
    current = low_rank(rng, rows, 6, rank)
    final = rng.standard_normal((final_rows, 6))
    best, *_ = np.linalg.lstsq(current.T, final.T)  # A with A @ current nearest to final
    left = np.linalg.norm(best.T @ current - final) / np.linalg.norm(final)
    distance = subspace_distance(current, final)
    assert distance.value == pytest.approx(left, abs=1e-9)
    assert not distance.degenerate
    assert 0 <= distance.value <= 1 + 1e-12


def test_distance_is_zero_when_the_final_row_space_is_contained():
    rng = np.random.default_rng(0)
    current = low_rank(rng, 8, 8, 3)
    distance = subspace_distance(current, rng.standard_normal((5, 8)) @ current)
    assert distance.value < 1e-13
    assert not distance.degenerate


def test_full_column_rank_is_said_to_be_degenerate():
    rng = np.random.default_rng(0)
    final = rng.standard_normal((6, 4))
    batch = np.stack([rng.standard_normal((6, 4)), low_rank(rng, 6, 4, 3), np.zeros((6, 4))])
    distance = subspace_distance(batch, final)
    assert distance.degenerate.tolist() == [True, False, False]
    assert distance.value[0] == 0
    assert distance.value[1] > 0
    assert distance.value[2] == pytest.approx(1, abs=1e-15)
    assert not subspace_distance(batch, final, k=3).degenerate.any()
    assert (subspace_distance(batch, final, k=3).value > 0).all()


def test_k_cuts_the_current_matrix():
    rng = np.random.default_rng(1)
    current, final = rng.standard_normal((2, 7, 5))
    u, s, vh = np.linalg.svd(current)
    for k in range(1, 5):
        cut = (u[:, :k] * s[:k]) @ vh[:k]
        expected = subspace_distance(cut, final).value
        assert subspace_distance(current, final, k=k).value == pytest.approx(expected, rel=1e-12)
    assert subspace_distance(current, final, k=5).degenerate


def test_nothing_is_far_from_zero():
    assert subspace_distance(np.ones((2, 3)), np.zeros((2, 3))).value == 0


def test_factored_matrices_and_a_time_axis():
    rng = np.random.default_rng(2)
    series = FactoredMatrix(
        rng.standard_normal((5, 2, 3, 30, 4)), rng.standard_normal((5, 2, 3, 4, 20))
    )
    dense = series.product()
    distance = subspace_distance(series, series[-1])
    assert distance.value.shape == distance.degenerate.shape == (5, 2, 3)
    np.testing.assert_allclose(
        distance.value, subspace_distance(dense, dense[-1]).value, atol=1e-13
    )
    np.testing.assert_allclose(distance.value[-1], 0, atol=1e-13)
    mixed = subspace_distance(series, dense[-1], k=2)
    np.testing.assert_allclose(mixed.value, subspace_distance(dense, series[-1], k=2).value)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_angles_are_those_of_scipy(seed, k):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((5, 9)), rng.standard_normal((6, 9))
    spaces = [np.linalg.svd(matrix)[2][:k].T for matrix in (a, b)]
    angles = principal_angles(a, b, k)
    np.testing.assert_allclose(angles, subspace_angles(*spaces)[::-1], atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-14, 1e-9, 1e-4, 0.7, np.pi / 4, 1.2, np.pi / 2])
def test_angles_are_accurate_small_and_large(angle):
    a = np.array([[1.0, 0, 0, 0], [0, 0.5, 0, 0]])
    b = np.array([[np.cos(angle), 0, np.sin(angle), 0], [0, 0.5, 0, 0]])
    np.testing.assert_allclose(principal_angles(a, b, 2), [0, angle], rtol=1e-12, atol=1e-16)


def test_angles_of_factored_matrices_broadcast():
    rng = np.random.default_rng(3)
    a = FactoredMatrix(rng.standard_normal((4, 12, 3)), rng.standard_normal((4, 3, 10)))
    b = rng.standard_normal((2, 1, 8, 10))
    angles = principal_angles(a, b, 2)
    assert angles.shape == (2, 4, 2)
    np.testing.assert_allclose(angles, principal_angles(a.product(), b, 2), atol=1e-12)


def test_a_space_that_does_not_exist_has_no_angle():
    batch = np.stack([np.diag([2.0, 1.0, 0.0]), np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3))])
    angles = principal_angles(batch, np.diag([2.0, 1.0, 0.0]), 2)
    assert np.isnan(angles).all(axis=1).tolist() == [False, True, True]
    np.testing.assert_allclose(angles[0], 0, atol=1e-15)


def test_drift_follows_a_turning_plane():
    angles = np.array([0.0, 1e-8, 0.1, 0.5, 0.5])
    plane = np.zeros((5, 2, 4))
    plane[:, 0, 0], plane[:, 0, 1] = 2 * np.cos(angles), 2 * np.sin(angles)
    plane[:, 1, 3] = 1.0
    drift = subspace_drift(plane, 2)
    np.testing.assert_allclose(drift, np.sin(np.diff(angles)) / np.sqrt(2), rtol=1e-7, atol=1e-15)
    factored = FactoredMatrix(np.broadcast_to(np.eye(2), (5, 2, 2)), plane)
    np.testing.assert_allclose(subspace_drift(factored, 2), drift, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_give_tensors(dtype):
    rng = np.random.default_rng(4)
    series = torch.asarray(rng.standard_normal((3, 5, 6))).to(dtype)
    exact = series.double().numpy()
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    distance = subspace_distance(series, series[-1], k=2)
    assert distance.value.dtype == computed
    assert distance.degenerate.dtype == torch.bool
    np.testing.assert_allclose(
        distance.value, subspace_distance(exact, exact[-1], k=2).value, atol=1e-5
    )
    angles = principal_angles(series[:1], series[1:], 3)
    assert angles.dtype == computed
    np.testing.assert_allclose(angles, principal_angles(exact[:1], exact[1:], 3), atol=1e-4)
    np.testing.assert_allclose(subspace_drift(series, 2), subspace_drift(exact, 2), atol=1e-4)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: subspace_distance(np.ones((2, 3)), np.ones((2, 4))), "final.shape"),
        (lambda: subspace_distance(np.ones((2, 2, 3)), np.ones((3, 2, 3))), "final.shape"),
        (lambda: subspace_distance(np.ones(3), np.ones((2, 3))), "current.shape"),
        (lambda: subspace_distance(np.ones((2, 3)), np.full((2, 3), np.nan)), "final"),
        (lambda: subspace_distance(np.ones((2, 3)), np.ones((2, 3)), k=3), "k"),
        (lambda: subspace_distance(np.ones((2, 3)), np.ones((2, 3)), k=0), "k"),
        (lambda: principal_angles(np.ones((2, 3)), np.ones((1, 3)), 2), "k"),
        (lambda: principal_angles(np.ones((2, 3)), np.ones((1, 2)), 1), "b.shape"),
        (lambda: principal_angles("a", np.ones((1, 2)), 1), "a"),
        (lambda: subspace_drift(np.ones((2, 3)), 1), "series.shape"),
        (lambda: subspace_drift(np.ones((1, 2, 3)), 1), "series.shape"),
        (lambda: subspace_drift(np.ones((2, 2, 3)), "1"), "k"),
    ],
)
def test_bad_input_names_its_field(call, field):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field


@pytest.mark.parametrize("library", [np.asarray, torch.asarray])
def test_drift_of_a_list_of_factored_circuits_is_that_of_their_products(library):
    rng = np.random.default_rng(5)
    series = [
        FactoredMatrix(
            library(rng.standard_normal((4, 9, 3))), library(rng.standard_normal((4, 3, 9)))
        )
        for _ in range(3)
    ]
    drift = subspace_drift(series, k=2)
    assert drift.shape == (2, 4)
    dense = np.stack([np.asarray(one.product()) for one in series])
    np.testing.assert_allclose(drift, subspace_drift(dense, k=2), atol=1e-10)
    with pytest.raises(InvalidInput, match="must be factored matrices of one shape"):
        subspace_drift([series[0], series[1][:2]], k=2)
    with pytest.raises(InvalidInput, match="must be factored matrices of one shape"):
        subspace_drift([series[0], np.ones((4, 9, 9))], k=2)
