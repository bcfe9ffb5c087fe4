"""Cosines of merged heads; distances and orders of softmax attention."""

import numpy as np
import xarray as xr

from saddlescope.figures.zhang import fig6, softmax
from saddlescope.task import Prompts


def test_cosines_do_not_see_length_or_sign():
    target = np.diag([1.0, 2.0])
    arrays = np.stack([3 * target, -target, np.diag([2.0, -1.0]), np.ones((2, 2))])
    expected = [1.0, 1.0, 0.0, 3 / np.sqrt(20)]
    np.testing.assert_allclose(fig6._cosine(arrays, target, 2), expected, atol=1e-15)
    vectors = np.diagonal(arrays, axis1=1, axis2=2)
    np.testing.assert_allclose(fig6._cosine(vectors, np.array([1.0, 2.0]), 1)[:3], expected[:3])


def test_the_least_parallel_pair_of_heads():
    heads = np.stack([np.eye(2), -2 * np.eye(2), np.array([[1.0, 1.0], [0.0, 1.0]])])
    least = fig6._least_parallel(heads[None, None])
    np.testing.assert_allclose(least, [[2 / np.sqrt(6)]])


def test_a_mirrored_prompt_has_its_query_and_target_reversed():
    generator = np.random.default_rng(0)
    prompts = Prompts(generator.standard_normal((3, 5, 2)), generator.standard_normal((3, 5)))
    both = softmax._mirrored(prompts)
    assert both.count == 6
    np.testing.assert_array_equal(both.x[:3], prompts.x)
    np.testing.assert_array_equal(both.x[3:, :-1], prompts.x[:, :-1])
    np.testing.assert_array_equal(both.x[3:, -1], -prompts.x[:, -1])
    np.testing.assert_array_equal(both.y[3:, -1], -prompts.y[:, -1])
    # The mean label says nothing of the target any more.
    assert abs((both.y[:, :-1].mean(1) * both.y[:, -1]).mean()) < 1e-15


def test_eigenvectors_in_the_order_in_which_they_are_half_learned():
    time = np.arange(100.0)
    ends = np.array([1.0, 0.8, 1.2])
    centres = np.array([50.0, 20.0, 80.0])
    shares = ends / (1 + np.exp(centres - time[:, None]))
    assert softmax._learning_order(shares[None]).tolist() == [[2.0, 1.0, 3.0]]


def test_distances_are_shares_of_the_fall_of_linear_attention():
    data = xr.Dataset(
        {
            "separate_level": (("seed", "level"), [[1.0, 0.55, 0.2], [1.0, 0.5, np.nan]]),
            "separate_linear_level": ("level", [1.0, 0.5, 0.1]),
        }
    )
    distances = softmax._distance(data, "separate")
    np.testing.assert_allclose(distances, [[0.0, 0.05 / 0.9, 0.1 / 0.9], [0.0, 0.0, np.nan]])
