"""Factored matrices against dense ones, and circuits against attention computed token by token."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.measure import FactoredMatrix, circuits, singular_values

sizes = st.integers(1, 7)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@given(sizes, sizes, sizes, st.integers(0, 2**32 - 1))
def test_decompositions_are_those_of_the_product(rows, inner, columns, seed):
    rng = np.random.default_rng(seed)
    factored = FactoredMatrix(
        rng.standard_normal((2, rows, inner)), rng.standard_normal((inner, columns))
    )
    dense = factored.left @ factored.right
    count = min(rows, inner, columns)
    expected = np.linalg.svd(dense, compute_uv=False)[:, :count]
    # Rounding is relative to the factors, which may be larger than their product.
    size = np.linalg.norm(factored.left) * np.linalg.norm(factored.right)
    u, s, vh = factored.svd()
    np.testing.assert_allclose(factored.singular_values(), expected, atol=1e-13 * size)
    np.testing.assert_allclose(s, expected, atol=1e-13 * size)
    np.testing.assert_allclose(u * s[:, None] @ vh, dense, atol=1e-13 * size)
    np.testing.assert_allclose(
        u.mT @ u, np.broadcast_to(np.eye(count), (2, count, count)), atol=1e-12
    )
    np.testing.assert_allclose(vh @ vh.mT, u.mT @ u, atol=1e-12)
    np.testing.assert_allclose(factored.norm(), np.linalg.norm(dense, axis=(1, 2)))
    np.testing.assert_array_equal(factored.product(), dense)
    assert factored.shape == dense.shape
    assert factored.ndim == 3


def test_products_stay_factored_with_the_smaller_inner_size():
    narrow = FactoredMatrix(normal(4, 8, 2), normal(4, 2, 6))
    wide = FactoredMatrix(normal(6, 5), normal(5, 7))
    both, back = narrow @ wide, wide.T @ narrow.T
    assert both.left.shape[-1] == back.left.shape[-1] == 2
    np.testing.assert_allclose(both.product(), narrow.product() @ wide.product(), atol=1e-12)
    np.testing.assert_allclose(back.product(), both.product().mT, atol=1e-12)


def test_products_with_arrays():
    factored = FactoredMatrix(normal(4, 8, 2), normal(4, 2, 6))
    dense = factored.product()
    matrix, vector = normal(6, 3), normal(6)
    assert isinstance(factored @ matrix, FactoredMatrix)
    np.testing.assert_allclose((factored @ matrix).product(), dense @ matrix, atol=1e-12)
    np.testing.assert_allclose(factored @ vector, dense @ vector, atol=1e-12)
    before, row = normal(5, 8), normal(8)
    assert isinstance(before @ factored, FactoredMatrix)
    np.testing.assert_allclose((before @ factored).product(), before @ dense, atol=1e-12)
    np.testing.assert_allclose(row @ factored, row @ dense, atol=1e-12)


def test_products_with_tensors():
    factored = FactoredMatrix(torch.asarray(normal(4, 8, 2)), torch.asarray(normal(4, 2, 6)))
    dense = factored.product()
    for before, after in ((normal(5, 8), normal(6, 3)), (normal(8), normal(6))):
        left, right = torch.asarray(before) @ factored, factored @ torch.asarray(after)
        if before.ndim == 2:
            assert isinstance(left, FactoredMatrix)
            left, right = left.product(), right.product()
        np.testing.assert_allclose(left, before @ dense.numpy(), atol=1e-12)
        np.testing.assert_allclose(right, dense.numpy() @ after, atol=1e-12)


def test_an_index_acts_on_leading_axes():
    factored = FactoredMatrix(normal(3, 4, 8, 2), normal(4, 2, 6))
    dense = factored.product()
    for index in (0, -1, slice(1, 3), (2, 1), (..., 3), (slice(None), [0, 2]), np.array([0, 0, 1])):
        whole = isinstance(index, tuple) and index[0] is ...
        chosen = dense[:, 3] if whole else dense[index]
        np.testing.assert_allclose(factored[index].product(), chosen, atol=1e-14)
    assert len(factored) == len(list(factored)) == 3
    with pytest.raises(IndexError):
        factored[0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_factors_of_low_precision_are_raised(dtype):
    left, right = torch.asarray(normal(3, 9, 2)).to(dtype), torch.asarray(normal(3, 2, 5)).to(dtype)
    factored = FactoredMatrix(left, right)
    values = factored.singular_values()
    assert values.dtype == torch.float32
    dense = left.double().numpy() @ right.double().numpy()
    expected = np.linalg.svd(dense, compute_uv=False)[:, :2]
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_a_tensor_and_an_array_make_tensors():
    matrix = FactoredMatrix(torch.asarray(normal(4, 2)), normal(2, 3))
    assert isinstance(matrix.product(), torch.Tensor)


@pytest.mark.parametrize(
    ("left", "right", "field"),
    [
        (np.ones((3, 2)), np.ones((3, 2)), "right.shape"),
        (np.ones((4, 3, 2)), np.ones((5, 2, 3)), "right.shape"),
        (np.ones(3), np.ones((3, 2)), "left.shape"),
        (np.ones((3, 2)), np.full((2, 2), np.nan), "right"),
        (np.ones((3, 0)), np.ones((0, 3)), "left.shape"),
    ],
)
def test_factors_that_do_not_fit(left, right, field):
    with pytest.raises(InvalidInput) as caught:
        FactoredMatrix(left, right)
    assert caught.value.field == field


@pytest.mark.parametrize("other", [np.ones((5, 2)), np.ones(5), 2.0])
def test_products_that_do_not_fit(other):
    factored = FactoredMatrix(np.ones((4, 2)), np.ones((2, 3)))
    for product in (lambda: factored @ other, lambda: factored @ factored):
        with pytest.raises(InvalidInput):
            product()


LAYERS, HEADS, SIZE, MODEL, TOKENS = 2, 6, 4, 10, 5


def attention_weights(shared=HEADS, kind=np.asarray):
    return {
        "W_Q": kind(normal(LAYERS, HEADS, SIZE, MODEL, seed=1)),
        "W_K": kind(normal(LAYERS, shared, SIZE, MODEL, seed=2)),
        "W_V": kind(normal(LAYERS, shared, SIZE, MODEL, seed=3)),
        "W_O": kind(normal(LAYERS, HEADS, MODEL, SIZE, seed=4)),
    }


def attention_biases(shared=HEADS):
    return {
        "b_Q": normal(LAYERS, HEADS, SIZE, seed=5),
        "b_K": normal(LAYERS, shared, SIZE, seed=6),
        "b_V": normal(LAYERS, shared, SIZE, seed=7),
        "b_O": normal(LAYERS, MODEL, seed=8),
    }


def direct_scores(weights, biases, x, layer, head, shared, turn=lambda vector, position: vector):
    """Scores [query, key] of one head, token by token."""
    used = head // (HEADS // shared)
    scores = np.empty((len(x), len(x)))
    for i, one in enumerate(x):
        for j, other in enumerate(x):
            query = weights["W_Q"][layer, head] @ one + biases["b_Q"][layer, head]
            key = weights["W_K"][layer, used] @ other + biases["b_K"][layer, used]
            scores[i, j] = turn(query, i) @ turn(key, j)
    return scores


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def none_of(biases):
    return {name: np.zeros_like(bias) for name, bias in biases.items()}


@pytest.mark.parametrize("shared", [1, 2, 3, 6])
def test_scores_and_outputs_of_grouped_queries(shared):
    weights, x = attention_weights(shared), normal(TOKENS, MODEL)
    found = circuits(**weights)
    assert found.qk.shape == found.ov.shape == (LAYERS, HEADS, MODEL, MODEL)
    assert not found.position_dependent
    assert found.head_bias is found.output_bias is None
    for layer in range(LAYERS):
        for head in range(HEADS):
            expected = direct_scores(
                weights, none_of(attention_biases(shared)), x, layer, head, shared
            )
            np.testing.assert_allclose(x @ found.qk[layer, head].product() @ x.T, expected)
            used = head // (HEADS // shared)
            moved = weights["W_O"][layer, head] @ weights["W_V"][layer, used]
            np.testing.assert_allclose(found.ov[layer, head].product(), moved, atol=1e-12)


@pytest.mark.parametrize("shared", [2, 6])
def test_biases_enter_scores_and_outputs(shared):
    weights, biases = attention_weights(shared), attention_biases(shared)
    x = normal(TOKENS, MODEL)
    found = circuits(**weights, **biases)
    assert found.qk.shape[-2:] == (MODEL + 1, MODEL + 1)
    assert found.ov.shape[-2:] == (MODEL, MODEL)
    extended = np.column_stack([x, np.ones(TOKENS)])
    for layer in range(LAYERS):
        expected = np.tile(biases["b_O"][layer], (TOKENS, 1))
        ours = np.tile(found.output_bias[layer], (TOKENS, 1))
        for head in range(HEADS):
            scores = direct_scores(weights, biases, x, layer, head, shared)
            circuit = found.qk[layer, head].product()
            np.testing.assert_allclose(extended @ circuit @ extended.T, scores, rtol=1e-10)
            pattern, used = softmax(scores), head // (HEADS // shared)
            values = x @ weights["W_V"][layer, used].T + biases["b_V"][layer, used]
            expected += pattern @ values @ weights["W_O"][layer, head].T
            ours += pattern @ x @ found.ov[layer, head].product().T
        np.testing.assert_allclose(ours, expected, atol=1e-11)


def test_one_bias_alone():
    weights, biases = attention_weights(), attention_biases()
    only_query = circuits(**weights, b_Q=biases["b_Q"])
    both = circuits(**weights, b_Q=biases["b_Q"], b_K=np.zeros((LAYERS, HEADS, SIZE)))
    np.testing.assert_array_equal(only_query.qk.product(), both.qk.product())
    np.testing.assert_array_equal(circuits(**weights, b_O=biases["b_O"]).output_bias, biases["b_O"])
    only_value = circuits(**weights, b_V=biases["b_V"])
    np.testing.assert_allclose(only_value.output_bias, only_value.head_bias.sum(axis=1))


@pytest.mark.parametrize("rotary_dimensions", [None, 2])
def test_rotary_scores_depend_on_the_distance(rotary_dimensions):
    weights, biases = attention_weights(), attention_biases()
    size = rotary_dimensions or SIZE

    def turn(vector, position):
        half = size // 2
        turned = vector.copy()
        for plane in range(half):
            angle = position * 500.0 ** (-2 * plane / size)
            pair = vector[plane], vector[plane + half]
            turned[plane] = pair[0] * np.cos(angle) - pair[1] * np.sin(angle)
            turned[plane + half] = pair[1] * np.cos(angle) + pair[0] * np.sin(angle)
        return turned

    layer = circuits(**weights, **biases, rotary=True)
    assert layer.position_dependent
    assert "distance 0" in repr(layer)
    np.testing.assert_array_equal(layer.qk_at(0).product(), layer.qk.product())
    x = normal(TOKENS, MODEL)
    scores = direct_scores(weights, biases, x, 1, 2, HEADS, turn)
    extended = np.column_stack([x, np.ones(TOKENS)])
    for i in range(TOKENS):
        for j in range(TOKENS):
            circuit = layer.qk_at(i - j, base=500.0, rotary_dimensions=rotary_dimensions)[1, 2]
            score = extended[i] @ circuit.product() @ extended[j]
            assert score == pytest.approx(scores[i, j], rel=1e-9)


def test_without_rotary_positions_the_distance_does_not_matter():
    layer = circuits(**attention_weights())
    assert layer.qk_at(3) is layer.qk


def test_tensors_stay_tensors():
    weights = attention_weights(2, kind=lambda array: torch.asarray(array).bfloat16())
    layer = circuits(**weights, rotary=True)
    expected = circuits(**{name: weight.float().numpy() for name, weight in weights.items()})
    for ours, theirs in ((layer.qk_at(0), expected.qk), (layer.ov, expected.ov)):
        assert singular_values(ours).dtype == torch.float32
        np.testing.assert_allclose(singular_values(ours), singular_values(theirs), rtol=1e-4)
    assert repr(layer).startswith("Circuits(heads=6, qk=(10, 10), ov=(10, 10), leading=(2,)")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"W_K": np.ones((2, 4, 4, 10)), "W_V": np.ones((2, 4, 4, 10))}, "W_K.shape"),
        ({"W_K": np.ones((2, 6, 3, 10))}, "W_K.shape"),
        ({"W_V": np.ones((2, 3, 4, 10))}, "W_V.shape"),
        ({"W_O": np.ones((2, 6, 4, 10))}, "W_O.shape"),
        ({"W_O": np.ones((6, 10, 4))}, "W_O.shape"),
        ({"W_Q": np.ones((4, 10))}, "W_Q.shape"),
        ({"W_Q": np.full((2, 6, 4, 10), np.nan)}, "W_Q"),
        ({"b_Q": np.ones((2, 4))}, "b_Q.shape"),
        ({"b_O": np.ones((2, 6, 10))}, "b_O.shape"),
        ({"b_V": np.full((2, 6, 4), np.inf)}, "b_V"),
    ],
)
def test_weights_that_do_not_fit(changed, field):
    with pytest.raises(InvalidInput) as caught:
        circuits(**{**attention_weights(), **changed})
    assert caught.value.field == field


@pytest.mark.parametrize(
    "options", [{"rotary_dimensions": 3}, {"rotary_dimensions": 6}, {"base": 0.0}, {"offset": "1"}]
)
def test_rotations_that_do_not_exist(options):
    layer = circuits(**attention_weights(), rotary=True)
    with pytest.raises(InvalidInput) as caught:
        layer.qk_at(**{"offset": 1, **options})
    assert caught.value.field == next(iter(options))


@pytest.mark.parametrize("library", [np.asarray, torch.asarray])
def test_single_precision_through_gram_matrices_is_as_exact_as_single_precision(library):
    """Tall factors, with columns that depend on one another or are zero in some of the heads."""
    left = normal(5, 96, 6).astype(np.float32)
    left[1, :, 2] = left[1, :, 0]
    right = normal(5, 6, 80).astype(np.float32)
    for chosen in ([0, 3, 4], [0, 1, 2]):
        right[2] = 0 if 2 in chosen else right[2]
        factored = FactoredMatrix(library(left[chosen]), library(right[chosen]))
        values = np.asarray(factored.singular_values())
        exact = np.linalg.svd(
            left[chosen].astype(float) @ right[chosen].astype(float), compute_uv=False
        )[:, :6]
        assert values.dtype == np.float32
        # Some rounding errors of single precision, relative to the largest singular value.
        np.testing.assert_allclose(values, exact, atol=2e-6 * exact.max())


@pytest.mark.parametrize("library", [np.asarray, torch.asarray])
def test_leading_rows_span_what_the_decomposition_says(library):
    factored = FactoredMatrix(library(normal(3, 30, 4)), library(normal(3, 4, 20)))
    rows, vectors = np.asarray(factored.leading_rows(2)), np.asarray(factored.svd().Vh)[:, :2]
    np.testing.assert_allclose(rows.mT @ rows, vectors.mT @ vectors, atol=1e-12)
    # One decomposition gives both.
    np.testing.assert_allclose(factored.singular_values(), np.asarray(factored.svd().S))
    zero = FactoredMatrix(library(np.zeros((5, 2))), library(normal(2, 6)))
    np.testing.assert_array_equal(zero.leading_rows(2), np.zeros((2, 6)))


def test_the_norms_gain_and_bias_are_folded_in():
    """Scores and values of normalised tokens, computed with the norm's own gain and bias."""
    query, key, value = normal(3, 2, 3, 6)
    output = normal(2, 6, 3, seed=1)
    gain, offset = normal(6, seed=2), normal(6, seed=3)
    bias = normal(2, 3, seed=4)
    x, y = normal(2, 6, seed=5)
    layer = circuits(query, key, value, output, b_Q=bias, gain=gain, norm_bias=offset)
    read, other = gain * x + offset, gain * y + offset
    for head in range(2):
        expected = (query[head] @ read + bias[head]) @ (key[head] @ other)
        with_one = np.append(x, 1) @ layer.qk.product()[head] @ np.append(y, 1)
        assert with_one == pytest.approx(expected)
        written = layer.ov.product()[head] @ y + layer.head_bias[head]
        np.testing.assert_allclose(written, output[head] @ (value[head] @ other))
    with pytest.raises(InvalidInput, match=r"gain.shape = \(5,\): must be \(6,\)"):
        circuits(query, key, value, output, gain=gain[:5])
