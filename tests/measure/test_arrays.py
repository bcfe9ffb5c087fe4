"""Arrays of NumPy and torch under one interface."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Array, above_rounding, frobenius, real_arrays
from saddlescope.measure._curves import checked_curve


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([[1, 2]], np.float64),
        (((1.0, 2.0),), np.float64),
        (np.ones((1, 2), np.float16), np.float32),
        (jnp.ones((1, 2), jnp.bfloat16), np.float32),
        (np.ones((1, 2), np.float32), np.float32),
    ],
)
def test_whatever_is_no_tensor_becomes_a_numpy_array(given, dtype):
    (found,) = real_arrays(2, given=given)
    assert isinstance(found, np.ndarray)
    assert isinstance(found, Array)
    assert found.dtype == dtype


def test_one_tensor_makes_tensors_of_all_and_the_widest_decides():
    narrow, wide = real_arrays(narrow=torch.ones(2, dtype=torch.float16), wide=np.ones(2))
    assert narrow.dtype == wide.dtype == torch.float64
    assert isinstance(narrow, Array)


@pytest.mark.parametrize("nonsense", [None, object(), {"a": 1}, "words", [1, [2]], 1j])
def test_nonsense_is_refused_by_name(nonsense):
    with pytest.raises(InvalidInput) as caught:
        real_arrays(matrices=nonsense)
    assert caught.value.field == "matrices"
    with pytest.raises(InvalidInput) as caught:
        checked_curve("loss", nonsense)
    assert caught.value.field == "loss"


def test_the_norm_of_large_and_small_matrices():
    for scale in (1e-200, 1.0, 1e200):
        assert frobenius(np.array([[3.0, 0.0], [0.0, 4.0]]) * scale) == pytest.approx(5 * scale)
    assert frobenius(np.zeros((2, 2))) == 0


def test_rounding_is_told_from_zero_by_the_longer_side():
    epsilon = np.finfo(np.float64).eps
    values = np.array([2.0, 2 * 11 * epsilon, 2 * 9 * epsilon])
    assert above_rounding(values, (7, 3, 10)).tolist() == [True, True, False]
    assert above_rounding(values, (7, 10, 3)).tolist() == [True, True, False]
