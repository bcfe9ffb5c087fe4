"""The exact moments of all blocks (T6) against Monte Carlo, block by block."""

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.task._block_moments import TaskMoments, block_statistics

DIMENSION = 2
GENERATOR = np.random.default_rng(0)


def random_covariance():
    root = GENERATOR.normal(size=(DIMENSION, DIMENSION))
    return root @ root.T / DIMENSION


INPUTS, QUERIES, TASKS = random_covariance(), random_covariance(), random_covariance()
BLOCKS = {
    "Tx": slice(0, DIMENSION**3),
    "βx": slice(DIMENSION**3, DIMENSION**3 + DIMENSION**2),
    "sx": slice(DIMENSION**3 + DIMENSION**2, None),
}


def law(lengths, noise):
    return ss.InContextRegression(
        INPUTS, lengths, task_covariance=TASKS, query_covariance=QUERIES, label_noise=noise
    )


def with_task(prompts, task, noise, seed):
    """The same inputs, labelled by one given task."""
    generator = np.random.default_rng(seed)
    inside = np.arange(prompts.context_length) < prompts.lengths[:, None]
    labels = prompts.x @ task
    labels[:, :-1] += noise * generator.standard_normal(inside.shape)
    labels[:, :-1] *= inside
    return ss.Prompts(prompts.x, labels, prompts.lengths)


def check(exact, batches):
    """Every block within three standard errors of its estimate, as an average over entries.

    Entries of a block share their prompts, so that all may lean one way by chance: the mean square
    of their z-scores is compared with 3² rather than each with 3.
    """
    samples = [batch.statistics("full") for batch in batches]
    for row, rows in BLOCKS.items():
        for column, columns in BLOCKS.items():
            values = np.array([s.second_moment[rows, columns] for s in samples])
            compare(exact.second_moment[rows, columns], values, f"⟨{row}, {column}⟩")
        crosses = np.array([s.cross_moment[rows] for s in samples])
        compare(exact.cross_moment[rows], crosses, f"E[y {row}]")
    compare(np.array(exact.label_power), np.array([s.label_power for s in samples]), "E[y²]")


def compare(exact, samples, name):
    error = samples.std(0, ddof=1) / np.sqrt(len(samples))
    score = (samples.mean(0) - exact) / np.where(error > 0, error, 1e-12)
    assert np.sqrt((score**2).mean()) < 3, name
    assert np.abs(score).max() < 5, name


@pytest.mark.parametrize("noise", [0.0, 0.7], ids=["clean", "noisy"])
@pytest.mark.parametrize("lengths", [5, {3: 0.5, 8: 0.5}], ids=["fixed", "random lengths"])
class TestAgainstSampling:
    def test_averaged_over_tasks(self, lengths, noise):
        task = law(lengths, noise)
        check(task.block_statistics(), [task.sample(20_000, seed) for seed in range(16)])

    def test_given_a_task(self, lengths, noise):
        task, given = law(lengths, noise), np.array([0.5, -1.2])
        exact = block_statistics(task.context_law, TaskMoments.of_pool(given[None]), None)
        batches = (
            with_task(task.sample(20_000, seed), given, noise, seed + 100) for seed in range(16)
        )
        check(exact, batches)


@pytest.mark.parametrize(
    ("share", "count", "labels"),
    [(0.4, 1, "consistent"), (0.7, 3, "consistent"), (1.0, 1, "random"), (0.3, 1, "random")],
)
def test_pools(share, count, labels):
    drawn = ss.TaskPool.draw(INPUTS, {3: 0.5, 8: 0.5}, count, share, seed=3)
    pool = ss.TaskPool(INPUTS, drawn.context_length, drawn.tasks, share, labels)
    check(pool.block_statistics(), [pool.sample(20_000, seed) for seed in range(16)])


def test_reduced_moments_are_a_block_of_the_full_ones():
    """⟨βx, βx⟩ is Λ_q ⊗ B of T3."""
    task = law(7, 0.3)
    moments, exact = task.moments(), task.block_statistics()
    square = exact.second_moment[BLOCKS["βx"], BLOCKS["βx"]]
    np.testing.assert_allclose(square, np.kron(moments.summary, moments.query), atol=1e-12)
    np.testing.assert_allclose(exact.cross_moment[BLOCKS["βx"]], moments.drive.ravel(), atol=1e-12)
