"""Ranks of many kinds, against spectra that are known and against dense decompositions."""

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.measure import (
    FactoredMatrix,
    effective_rank,
    marginalised_effective_rank,
    participation_ratio,
    singular_values,
    stable_rank,
)

RANKS = [effective_rank, marginalised_effective_rank, stable_rank, participation_ratio]


def with_singular_values(values, rows=9, columns=7, seed=0):
    """A matrix with these singular values and random singular vectors."""
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.standard_normal((rows, rows)))
    right, _ = np.linalg.qr(rng.standard_normal((columns, columns)))
    size = len(values)
    return (left[:, :size] * np.asarray(values)) @ right[:size]


def plain_entropy_rank(values):
    shares = [value / sum(values) for value in values if value > 0]
    return float(np.exp(-sum(share * np.log(share) for share in shares)))


spectrum = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=7)


@given(spectrum, st.integers(0, 2**32 - 1))
def test_each_rank_is_its_formula(values, seed):
    values = sorted(values, reverse=True)
    matrix = with_singular_values(values, seed=seed)
    squares = np.array(values) ** 2
    np.testing.assert_allclose(singular_values(matrix)[: len(values)], values, rtol=1e-9)
    # Entropies change with rounding of the singular values, up to 1e-13 of the largest.
    assert effective_rank(matrix) == pytest.approx(plain_entropy_rank(values), rel=1e-8)
    assert marginalised_effective_rank(matrix) == pytest.approx(
        plain_entropy_rank(values[1:]), rel=1e-6
    )
    assert stable_rank(matrix) == pytest.approx(squares.sum() / squares[0], rel=1e-9)
    assert participation_ratio(matrix) == pytest.approx(
        squares.sum() ** 2 / (squares**2).sum(), rel=1e-9
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_ranks_lie_between_one_and_the_size(seed, rows, columns, inner):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, inner)) @ rng.standard_normal((inner, columns))
    largest = min(rows, columns, inner) + 1e-9
    for rank in (effective_rank, stable_rank, participation_ratio):
        assert 1 - 1e-9 <= rank(matrix) <= largest


@pytest.mark.parametrize("rank", RANKS)
def test_the_zero_matrix_has_rank_zero(rank):
    batch = np.zeros((3, 4, 5))
    batch[1] = with_singular_values([2.0, 1.0], 4, 5)
    ranks = rank(batch)
    assert ranks[0] == ranks[2] == 0
    assert ranks[1] >= 1
    assert rank(FactoredMatrix(np.zeros((4, 2)), np.ones((2, 5)))) == 0


@pytest.mark.parametrize("shape", [(2, 1000), (1000, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_longer_side_says_what_rounding_is(shape, dtype):
    """A singular value of 100 ε is rounding in a matrix of 1000 columns, or rows: 2000 ε is not."""
    matrix = np.zeros(shape, dtype)
    matrix[0, 0] = 1.0
    for multiple, rank in ((100, 0), (2000, 1)):
        matrix[1, 1] = multiple * np.finfo(dtype).eps
        assert marginalised_effective_rank(matrix) == rank
        assert np.linalg.matrix_rank(matrix) == 1 + rank


def test_what_is_left_of_rank_one_is_rounding_and_has_rank_zero():
    rng = np.random.default_rng(0)
    column, row = rng.standard_normal((40, 1)), rng.standard_normal((1, 30))
    for dtype in (np.float32, np.float64):
        dense = (column @ row).astype(dtype)
        assert marginalised_effective_rank(dense) == 0


def test_leading_counts_what_is_deleted():
    matrix = np.diag([50.0, 20.0, 1.0, 1.0, 0.0])
    assert marginalised_effective_rank(matrix, 0) == pytest.approx(effective_rank(matrix))
    assert marginalised_effective_rank(matrix, 2) == pytest.approx(2)
    assert marginalised_effective_rank(matrix, leading=3) == pytest.approx(1)
    assert marginalised_effective_rank(matrix, 4) == 0


@pytest.mark.parametrize("rank", RANKS)
def test_units_do_not_matter_even_at_the_ends_of_the_range(rank):
    matrix = with_singular_values([4.0, 2.0, 1.0]).astype(np.float32)
    for scale in (np.float32(1e-30), np.float32(1e30)):
        assert rank(matrix * scale) == pytest.approx(rank(matrix), rel=1e-4)


@pytest.mark.parametrize("rank", RANKS)
def test_factored_matrices_have_the_ranks_of_their_product(rank):
    rng = np.random.default_rng(1)
    factored = FactoredMatrix(rng.standard_normal((2, 3, 30, 5)), rng.standard_normal((3, 5, 20)))
    np.testing.assert_allclose(rank(factored), rank(factored.product()), rtol=1e-10)
    assert rank(factored).shape == (2, 3)


@pytest.mark.parametrize("rank", RANKS)
def test_batches_are_their_members(rank):
    batch = np.random.default_rng(2).standard_normal((2, 3, 6, 4))
    one_by_one = [[rank(matrix) for matrix in row] for row in batch]
    np.testing.assert_allclose(rank(batch), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    ("dtype", "computed", "tolerance"),
    [
        (torch.float64, torch.float64, 1e-12),
        (torch.float32, torch.float32, 1e-5),
        # The half precisions keep 11 and 8 bits of each entry.
        (torch.float16, torch.float32, 2**-8),
        (torch.bfloat16, torch.float32, 2**-5),
    ],
)
def test_tensors_give_tensors(rank, dtype, computed, tolerance):
    array = np.random.default_rng(3).standard_normal((2, 8, 5))
    tensor = torch.asarray(array).to(dtype).requires_grad_()
    ranks = rank(tensor)
    assert isinstance(ranks, torch.Tensor)
    assert ranks.dtype == computed
    assert not ranks.requires_grad
    np.testing.assert_allclose(ranks.numpy(), rank(array), rtol=tolerance)


def test_other_arrays_give_numpy_arrays():
    array = np.random.default_rng(4).standard_normal((3, 6, 4)).astype(np.float32)
    expected = effective_rank(array)
    assert expected.dtype == np.float32
    labelled = xr.DataArray(array, dims=("time", "row", "column"))
    for given_as in (array.tolist(), jnp.asarray(array), labelled):
        ranks = effective_rank(given_as)
        assert isinstance(ranks, np.ndarray)
        np.testing.assert_allclose(ranks, expected, rtol=1e-5)
    for narrow in (array.astype(np.float16), jnp.asarray(array).astype(jnp.bfloat16)):
        assert effective_rank(narrow).dtype == np.float32
        np.testing.assert_allclose(effective_rank(narrow), expected, rtol=2**-5)


@pytest.mark.parametrize("measure", [singular_values, *RANKS])
@pytest.mark.parametrize(
    ("matrices", "field"),
    [
        (np.ones(3), "matrices.shape"),
        (2.0, "matrices.shape"),
        (np.ones((0, 3)), "matrices.shape"),
        (np.array([[1.0, np.nan]]), "matrices"),
        (torch.tensor([[1.0, np.inf]]), "matrices"),
        (torch.ones(2), "matrices.shape"),
        (np.ones((2, 2), dtype=complex), "matrices"),
        (torch.ones((2, 2), dtype=torch.complex64), "matrices"),
        ([["a", "b"]], "matrices"),
        ([[1.0, 2.0], [3.0]], "matrices"),
        ("words", "matrices"),
    ],
)
def test_bad_input_names_its_field(measure, matrices, field):
    with pytest.raises(InvalidInput) as caught:
        measure(matrices)
    assert caught.value.field == field


@pytest.mark.parametrize("leading", [-1, 1.5, 3, "1", None])
def test_leading_is_a_number_of_singular_values(leading):
    with pytest.raises(InvalidInput) as caught:
        marginalised_effective_rank(np.ones((3, 5)), leading)
    assert caught.value.field == "leading"
