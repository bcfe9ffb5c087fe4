"""Vector labels: the aligned law and its independent sibling."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.task import AlignedRegression, Prompts, Spectrum

BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
SPECTRUM = Spectrum([1.0, 0.5, 0.2], BASIS)


def test_prompts_are_as_they_say():
    prompts = AlignedRegression(SPECTRUM, 7).sample(20, seed=1)
    assert prompts.x.shape == prompts.y.shape == (20, 8, 3)
    assert (prompts.count, prompts.context_length, prompts.dimension) == (20, 7, 3)
    assert (prompts.lengths == 7).all()
    np.testing.assert_array_equal(prompts.query, prompts.x[:, -1])
    np.testing.assert_array_equal(prompts.target, prompts.y[:, -1])
    again = AlignedRegression(SPECTRUM, 7).sample(20, seed=1)
    np.testing.assert_array_equal(prompts.y, again.y)


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_labels_are_a_map_of_the_inputs(tasks):
    prompts = AlignedRegression(SPECTRUM, 7, tasks).sample(50)
    # There is no noise, so that least squares give W itself.
    maps = np.linalg.solve(prompts.x.mT @ prompts.x, prompts.x.mT @ prompts.y).mT
    np.testing.assert_allclose(prompts.x @ maps.mT, prompts.y, atol=1e-9)
    turned = BASIS.T @ maps @ BASIS
    off_diagonal = np.abs(turned * (1 - np.eye(3))).max()
    assert (off_diagonal < 1e-8) == (tasks == "aligned")


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_moments_against_samples(tasks):
    """Within four standard errors, 21 numbers of each."""
    task, count = AlignedRegression(SPECTRUM, 4, tasks), 40_000
    prompts, exact = task.sample(count, seed=2), task.moments()
    context, query, target = prompts.x[:, :-1], prompts.query, prompts.target
    summary = prompts.y[:, :-1].mT @ context / 4  # WΣ̂, a β in each row
    drawn = {
        "label_power": (target**2).sum(-1),
        "drive": (summary.mT @ target[:, :, None]) * query[:, None, :],
        "summary": summary.mT @ summary,
        "query": query[:, :, None] * query[:, None, :],
    }
    for name, values in drawn.items():
        error = values.std(0) / np.sqrt(count)
        assert (np.abs(values.mean(0) - getattr(exact, name)) < 4 * error).all(), name


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_task_second_moments(tasks):
    """E[W_ab W_cd] in the eigenbasis, within four standard errors."""
    count = 40_000
    prompts = AlignedRegression(SPECTRUM, 3, tasks).sample(count, seed=3)
    x, y = prompts.x[:, :3] @ BASIS, prompts.y[:, :3] @ BASIS
    maps = np.linalg.solve(x, y).mT
    pairs = maps[:, :, :, None, None] * maps[:, None, None]
    eye = np.eye(3)
    if tasks == "aligned":
        expected = np.einsum("ab,cd,ac->abcd", eye, eye, eye)
    else:
        expected = np.einsum("ac,bd->abcd", eye, eye) / 3
    error = pairs.std(0) / np.sqrt(count)
    assert (np.abs(pairs.mean(0) - expected) < 4 * error + 1e-6).all()


def test_nonsense_is_refused():
    with pytest.raises(InvalidInput, match="tasks"):
        AlignedRegression(SPECTRUM, 7, tasks="rotated")
    with pytest.raises(InvalidInput, match="context_length"):
        AlignedRegression(SPECTRUM, [7, 8])
    with pytest.raises(InvalidInput, match=r"y\.shape"):
        Prompts(np.ones((2, 3, 4)), np.ones((2, 3, 5)))
    with pytest.raises(InvalidInput, match=r"x\.shape"):
        Prompts(np.ones((0, 3, 4)), np.ones((0, 3, 4)))
    with pytest.raises(InvalidInput, match="reduced blocks only"):
        AlignedRegression(SPECTRUM, 7).block_statistics()
