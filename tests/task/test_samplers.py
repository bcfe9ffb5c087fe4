"""Prompts drawn inside compiled loops: the law of each sampler, its shapes and its keys."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.task import AlignedRegression, InContextRegression, Prompts, TaskPool
from saddlescope.task.samplers import draw_prompts

LAWS: dict[str, Any] = {
    "regression": InContextRegression(
        [[0.5, 0.1], [0.1, 0.3]], 4, [1.0, 2.0], [0.4, 0.2], label_noise=0.5
    ),
    "many lengths": InContextRegression([0.5, 0.3], {2: 0.25, 4: 0.75}),
    "pool": TaskPool([0.5, 0.3], 4, tasks=np.array([[1.0, -1.0], [0.5, 2.0]]), share=0.6),
    "memory": TaskPool([0.5, 0.3], 4, tasks=np.array([[1.0, -1.0]]), share=0.6, labels="random"),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_moments_are_those_of_the_law(name: str) -> None:
    """Within four and a half standard errors: fifty numbers in all."""
    law = LAWS[name]
    prompts, exact = draw_prompts(law.sampler(), 20_000, seed=3), law.moments()
    summary, query, target = prompts.summary, prompts.query, prompts.target
    drawn = {
        "label_power": target**2,
        "drive": target[:, None, None] * summary[:, :, None] * query[:, None, :],
        "summary": summary[:, :, None] * summary[:, None, :],
        "query": query[:, :, None] * query[:, None, :],
    }
    for moment, values in drawn.items():
        error = values.std(axis=0) / np.sqrt(len(values))
        distance = np.abs(values.mean(axis=0) - getattr(exact, moment))
        assert (distance <= 4.5 * error).all(), moment


def test_lengths_have_their_shares_and_the_rest_is_empty() -> None:
    prompts = draw_prompts(LAWS["many lengths"].sampler(), 4000, seed=1)
    assert prompts.x.shape == (4000, 5, 2)
    assert set(prompts.lengths) == {2, 4}
    assert np.mean(prompts.lengths == 2) == pytest.approx(0.25, abs=4 * np.sqrt(0.19 / 4000))
    short = prompts.lengths == 2
    assert not prompts.x[short, 2:-1].any()
    assert not prompts.y[short, 2:-1].any()
    assert prompts.x[short, -1].all()


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_vector_labels_are_a_map_of_the_inputs(tasks: str) -> None:
    law = AlignedRegression([0.9, 0.4], context_length=5, tasks=tasks)
    prompts = draw_prompts(law.sampler(), 30, seed=2)
    assert prompts.x.shape == prompts.y.shape == (30, 6, 2)
    maps = np.linalg.solve(prompts.x.mT @ prompts.x, prompts.x.mT @ prompts.y).mT
    np.testing.assert_allclose(prompts.x @ maps.mT, prompts.y, atol=1e-9)
    assert (np.abs(maps[:, 0, 1]).max() < 1e-9) == (tasks == "aligned")


def test_rows_are_those_that_are_given() -> None:
    given = LAWS["regression"].sample(3)
    drawn = draw_prompts(given.sampler(), 50, seed=0)
    picked = [int(np.flatnonzero((given.y == row).all(-1))[0]) for row in drawn.y]
    assert set(picked) == {0, 1, 2}
    np.testing.assert_array_equal(drawn.x, given.x[picked])
    np.testing.assert_array_equal(drawn.lengths, given.lengths[picked])


def test_a_seed_draws_the_same_prompts_again() -> None:
    sampler = LAWS["regression"].sampler()
    one, same, other = (draw_prompts(sampler, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.y, same.y)
    assert (one.y != other.y).all()


def test_prompts_are_a_tree_for_jax() -> None:
    prompts = LAWS["regression"].sample(3)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, prompts)
    assert isinstance(doubled, Prompts)
    np.testing.assert_array_equal(doubled.x, 2 * prompts.x)
    with jax.enable_x64(True):
        total = jax.jit(lambda p: p.y.sum())(jax.tree.map(jnp.asarray, prompts))
    assert float(total) == pytest.approx(prompts.y.sum(), rel=1e-12)
