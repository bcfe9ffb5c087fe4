"""The networks of T4 and the attention that they are equivalent to."""

import numpy as np
import pytest

from saddlescope.arrays import unvectorise, vectorise
from saddlescope.attention import (
    ConvolutionalNetwork,
    MergedAttention,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.task import InContextRegression

H, D = 3, 4
RANDOM = np.random.default_rng(0)
PAIRS = {
    "two layers": (
        TwoLayerNetwork(H),
        MergedAttention(H),
        {"v": RANDOM.standard_normal(H), "U": RANDOM.standard_normal((H, D, D))},
    ),
    "convolution": (
        ConvolutionalNetwork(H),
        SeparateAttention(H, 1),
        {
            "v": RANDOM.standard_normal(H),
            "k": RANDOM.standard_normal((H, 1, D)),
            "q": RANDOM.standard_normal((H, 1, D)),
        },
    ),
}


def test_columns_are_stacked() -> None:
    matrix = np.arange(6.0)[:4].reshape(2, 2)
    np.testing.assert_array_equal(vectorise(matrix), matrix.ravel(order="F"))
    np.testing.assert_array_equal(unvectorise(vectorise(matrix)), matrix)


@pytest.mark.parametrize("name", PAIRS)
def test_translation_there_and_back(name: str) -> None:
    network, _, weights = PAIRS[name]
    translated = network.from_attention(weights)
    assert {n: array.shape for n, array in translated.items()} == network.shapes(D)
    for name_, array in network.to_attention(translated).items():
        np.testing.assert_array_equal(array, weights[name_])


@pytest.mark.parametrize("name", PAIRS)
def test_network_and_attention_predict_and_move_alike(name: str) -> None:
    network, attention, weights = PAIRS[name]
    translated = network.from_attention(weights)
    data = InContextRegression([0.4, 0.3, 0.2, 0.1], 5).sample(20, seed=1)
    np.testing.assert_allclose(
        network.predict(translated, data),
        attention.predict(weights, data),
        atol=1e-13,
    )
    force = RANDOM.standard_normal((D, D))
    moved = network.to_attention(network.pull_back(translated, force))
    for name_, array in attention.pull_back(weights, force).items():
        np.testing.assert_allclose(moved[name_], array, atol=1e-13)


def test_the_two_layer_network_is_linear_in_the_cubic_feature() -> None:
    network, _, weights = PAIRS["two layers"]
    translated = network.from_attention(weights)
    data = InContextRegression([0.4, 0.3, 0.2, 0.1], 5).sample(6, seed=2)
    expected = [
        translated["output"] @ (translated["hidden"] @ feature) for feature in data.cubic_features
    ]
    np.testing.assert_allclose(network.predict(translated, data), expected, atol=1e-13)


def test_the_convolution_slides_one_kernel_with_stride_d() -> None:
    network, _, weights = PAIRS["convolution"]
    translated = network.from_attention(weights)
    data = InContextRegression([0.4, 0.3, 0.2, 0.1], 5).sample(6, seed=3)
    expected = []
    for feature in data.cubic_features:
        total = 0.0
        for output, kernel, hidden in zip(
            translated["output"], translated["kernel"], translated["hidden"], strict=True
        ):
            # Z eq. 18: K_i holds kᵢᵀ on its block diagonal.
            sliding = np.kron(np.eye(D), kernel[None, :])
            total += output * hidden @ sliding @ feature
        expected.append(total)
    np.testing.assert_allclose(network.predict(translated, data), expected, atol=1e-13)
