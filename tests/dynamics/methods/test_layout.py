"""Named weights as one flat vector."""

import numpy as np
import pytest

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.dynamics.methods._layout import Layout

MODELS = [MergedAttention(2), SeparateAttention(3, 2)]


@pytest.mark.parametrize("model", MODELS, ids=["merged", "separate"])
@pytest.mark.parametrize("lead", [(), (4,), (2, 5)], ids=str)
def test_packing_loses_nothing(model, lead: tuple[int, ...]) -> None:
    layout, random = Layout.of(model, 3), np.random.default_rng(0)
    weights = {
        name: random.standard_normal((*lead, *shape)) for name, shape in model.shapes(3).items()
    }
    vector = layout.pack(weights)
    assert vector.shape == (*lead, layout.size)
    for name, array in layout.unpack(vector).items():
        np.testing.assert_array_equal(array, weights[name])


def test_weights_lie_in_the_order_of_their_shapes() -> None:
    layout = Layout.of(SeparateAttention(2, 1), 3)
    parts = layout.unpack(np.arange(14.0))
    assert layout.size == 2 + 6 + 6
    assert parts["v"].tolist() == [0, 1]
    assert parts["k"].tolist() == [[[2, 3, 4]], [[5, 6, 7]]]
    assert parts["q"].tolist() == [[[8, 9, 10]], [[11, 12, 13]]]


def test_one_shape_is_one_layout() -> None:
    # Compiled programs are found again by it.
    assert Layout.of(MergedAttention(2), 3) == Layout.of(MergedAttention(2), 3)
    assert hash(Layout.of(MergedAttention(2), 3)) == hash(Layout.of(MergedAttention(2), 3))
    assert Layout.of(MergedAttention(2), 3) != Layout.of(MergedAttention(2), 4)
