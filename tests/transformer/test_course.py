"""What recorded weights say, on weights whose ranks, copies and distances are known."""

from typing import Any

import numpy as np
import pytest

from saddlescope.transformer import DecoderShape
from saddlescope.transformer._course import AXES, kept_names, measure_course
from saddlescope.transformer._decoder import Arrays

SHAPE = DecoderShape(4, 3, layers=1, heads=2, d_model=4, d_head=2)
EYE = np.eye(4)


def record(directions: tuple[int, ...] = (0, 1), **changes: Any) -> Arrays:
    """One seed whose two heads read and write along two axes of the stream each, alike."""
    read = np.stack([EYE[list(directions)]] * 2)[None, None]
    written = np.swapaxes(read, -1, -2)
    weights = {"W_Q": read, "W_K": read, "W_V": read, "W_O": written}
    weights |= {"W_E": EYE[None] * 1.0, "W_U": EYE[None] * 1.0}
    return {name: array.copy() for name, array in {**weights, **changes}.items()}


def test_every_measure_is_over_seeds_and_steps() -> None:
    measured = measure_course(SHAPE, [record(), record(), record()])
    assert set(measured) == set(AXES)
    for name, axes in AXES.items():
        assert measured[name].shape == ((1, 3, 1, 2) if axes == ("layer", "head") else (1, 3))


def test_ranks_are_those_of_the_circuits() -> None:
    weights = record()
    # The second head's query reads one axis only: its QK circuit has rank one, its OV two.
    weights["W_Q"][0, 0, 1, 1] = 0
    measured = measure_course(SHAPE, [weights])
    np.testing.assert_allclose(measured["qk_effective_rank"][0, 0, 0], [2, 1])
    np.testing.assert_allclose(measured["ov_effective_rank"][0, 0, 0], [2, 2])
    np.testing.assert_allclose(measured["qk_marginal_rank"][0, 0, 0], [1, 0], atol=1e-12)
    np.testing.assert_allclose(measured["ov_marginal_rank"][0, 0, 0], [1, 1])


@pytest.mark.parametrize(("before", "distance"), [((0, 1), 0.0), ((0, 2), 0.5**0.5), ((2, 3), 1.0)])
def test_distances_are_to_the_last_record(before: tuple[int, int], distance: float) -> None:
    measured = measure_course(SHAPE, [record(before), record((0, 1))])
    for name in ("qk_distance", "ov_distance"):
        np.testing.assert_allclose(measured[name][0, 0], distance, atol=1e-12)
        np.testing.assert_allclose(measured[name][0, 1], 0, atol=1e-12)


def test_drifts_are_from_the_record_before() -> None:
    measured = measure_course(
        SHAPE, [record((0, 1)), record((0, 2)), record((1, 3)), record((1, 3))]
    )
    for name in ("qk_drift", "ov_drift"):
        drift = measured[name][0, :, 0, 0]
        assert np.isnan(drift[0])
        np.testing.assert_allclose(drift[1:], [0.5**0.5, 1, 0], atol=1e-12)


def test_a_circuit_of_full_rank_has_no_distance() -> None:
    whole = DecoderShape(4, 3, layers=1, heads=1, d_model=4, d_head=4)
    weights = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), EYE[None, None, None])
    weights |= {"W_E": EYE[None], "W_U": EYE[None]}
    measured = measure_course(whole, [weights])
    assert np.isnan(measured["qk_distance"]).all()
    assert np.isfinite(measured["qk_effective_rank"]).all()


def test_the_embeddings_distance_is_that_of_its_leading_directions() -> None:
    first = record(W_E=np.diag([3.0, 3.0, 1.0, 1.0])[None])
    half = record(W_E=np.diag([3.0, 1.0, 3.0, 1.0])[None])
    last = record(W_E=np.diag([1.0, 1.0, 3.0, 3.0])[None])
    measured = measure_course(SHAPE, [first, half, last])
    np.testing.assert_allclose(measured["embedding_distance"][0], [1, 0.5**0.5, 0], atol=1e-7)


def test_heads_copy_or_suppress() -> None:
    weights = record()
    weights["W_O"][0, 0, 1] *= -1
    np.testing.assert_allclose(measure_course(SHAPE, [weights])["copying"][0, 0, 0], [1, -1])


def test_a_seed_that_is_not_finite_is_nan_and_leaves_the_others() -> None:
    good = record()
    both = {name: np.concatenate([array, array]) for name, array in good.items()}
    both["W_V"][1, 0, 0, 0, 0] = np.inf
    alone, measured = measure_course(SHAPE, [good]), measure_course(SHAPE, [both])
    for name in AXES:
        np.testing.assert_array_equal(measured[name][:1], alone[name])
        assert np.isnan(measured[name][1]).all()


def test_a_tied_unembedding_is_not_kept_twice() -> None:
    assert kept_names(SHAPE) == ("W_Q", "W_K", "W_V", "W_O", "W_E", "W_U")
    tied = DecoderShape(4, 3, layers=1, heads=2, d_model=4, d_head=2, tied=True)
    assert kept_names(tied) == ("W_Q", "W_K", "W_V", "W_O", "W_E")
    weights = record()
    del weights["W_U"]
    np.testing.assert_allclose(measure_course(tied, [weights])["copying"], 1)
