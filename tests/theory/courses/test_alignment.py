"""T10: what of a start grows, and how heads turn to the drive while they are small."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saddlescope.attention import MergedAttention, RandomStart, SeparateAttention, TwoLayerNetwork
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import TaskPool
from saddlescope.theory import alignment, early_alignment, modes

MODEL = MergedAttention(3)


def measured_cosines(flow, drive, times):
    """Of each head's matrix with the drive, by SciPy's solution of the whole flow."""
    solved = solve_ivp(
        flow.velocity,
        (0, times[-1]),
        flow.start,
        method="LSODA",
        rtol=1e-11,
        atol=1e-16,
        t_eval=times,
    )
    matrices = np.array([flow.unpack(state)["U"] for state in solved.y.T])
    along = np.tensordot(matrices, drive, axes=2) / np.linalg.norm(drive)
    return np.abs(along) / np.linalg.norm(matrices, axis=(2, 3))


def test_heads_turn_to_the_drive_as_predicted(commuting, flow_of):
    task = commuting(3, 2)
    growth = modes(task).growth_rate
    times, errors = np.linspace(0, 4 / growth, 7), []
    for scale in (1e-2, 1e-3):
        weights = RandomStart(scale).weights(MODEL, task, seed=0)
        measured = measured_cosines(flow_of(task, weights), task.moments().drive, times)
        errors.append(np.abs(early_alignment(task, weights, times) - measured).max())
        assert (measured[-1] > 0.9).all()
        assert (measured[0] < 0.9).any()
    # The maps that it leaves out are of second order in the weights.
    assert errors[1] < 2e-2 * errors[0]
    assert errors[1] < 1e-4


def test_at_long_times_every_head_is_aligned(paper):
    weights = RandomStart(0.01).weights(MODEL, paper, seed=0)
    np.testing.assert_allclose(early_alignment(paper, weights, [1e9]), 1.0, rtol=1e-12)


def test_a_head_that_is_zero_has_no_direction(paper):
    zero = {"v": np.zeros(1), "U": np.zeros((1, 4, 4))}
    assert early_alignment(paper, zero, [0.0, 1.0]).tolist() == [[0.0], [0.0]]


def test_networks_and_unnormalised_attention_align_alike(paper):
    weights, times = RandomStart(0.01).weights(MODEL, paper, seed=0), [0.0, 3.0]
    expected = early_alignment(paper, weights, times)
    network = TwoLayerNetwork(3)
    given = network.from_attention(weights)
    cosines = early_alignment(paper, given, times, model=network)
    np.testing.assert_allclose(cosines, expected, rtol=1e-12)
    assert alignment(paper, given, model=network) == pytest.approx(alignment(paper, weights))
    theirs = MergedAttention(3, normalisation="none")
    smaller = {name: array / np.sqrt(31) for name, array in weights.items()}
    cosines = early_alignment(paper, smaller, times, model=theirs)
    np.testing.assert_allclose(cosines, expected, rtol=1e-12)
    assert alignment(paper, smaller, model=theirs) == pytest.approx(alignment(paper, weights))


def test_bad_input_is_named(paper):
    weights = RandomStart(0.01).weights(MODEL, paper, seed=0)
    with pytest.raises(InvalidInput, match="times"):
        early_alignment(paper, weights, [-1.0])
    with pytest.raises(InvalidInput, match="model"):
        alignment(paper, weights, model=SeparateAttention(3))
    with pytest.raises(InvalidInput, match="weights"):
        alignment(paper, {"v": [1.0]})


def test_without_drive_nothing_grows():
    # All tasks vanish: nothing is to be learned.
    task = TaskPool([0.4, 0.3], 31, [[0.0, 0.0]])
    with pytest.raises(TheoryDoesNotApply, match="no drive"):
        alignment(task, {"v": [0.1], "U": np.zeros((1, 2, 2))})
