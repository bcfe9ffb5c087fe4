"""Tasks that come back: validation, tests, and memory against learning in context."""

import numpy as np
import pytest

import saddlescope as ss


def test_the_papers_single_task_has_length_root_d():
    pool = ss.TaskPool.draw([0.25] * 4, context_length=31, count=1)
    assert np.linalg.norm(pool.tasks) == pytest.approx(2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"share": 1.5}, "share = 1.5: must be from 0 to 1"),
        ({"share": -0.1}, "share = -0.1: must be a finite number, at least 0"),
        ({"tasks": np.zeros((0, 2))}, "tasks = .* must hold at least one task vector"),
        ({"tasks": np.zeros((1, 3))}, r"tasks.shape = \(1, 3\): must be \(any, 2\)"),
        ({"labels": "wrong"}, "labels = 'wrong': must be 'consistent' or 'random'"),
        (
            {"labels": "random", "tasks": np.ones((2, 2))},
            "labels = 'random': needs a pool of one task",
        ),
    ],
)
def test_nonsense_is_refused(fields, message):
    given = {"spectrum": [0.5, 0.5], "context_length": 5, "tasks": np.ones((1, 2)), **fields}
    with pytest.raises(ss.InvalidInput, match=message):
        ss.TaskPool(**given)


def test_a_share_of_nothing_is_the_plain_task():
    plain = ss.InContextRegression([0.5, 0.3], context_length=7)
    pool = ss.TaskPool.draw([0.5, 0.3], 7, count=3, share=0.0)
    np.testing.assert_allclose(
        pool.block_statistics().second_moment, plain.block_statistics().second_moment, atol=1e-14
    )
    np.testing.assert_allclose(pool.moments().summary, plain.moments().summary, atol=1e-14)


@pytest.mark.parametrize("labels", ["consistent", "random"])
def test_reduced_moments_are_a_block_of_the_full_ones(labels):
    drawn = ss.TaskPool.draw([0.5, 0.3], 7, count=1, share=0.6)
    pool = ss.TaskPool([0.5, 0.3], 7, drawn.tasks, 0.6, labels)
    moments, exact = pool.moments(), pool.block_statistics()
    np.testing.assert_allclose(
        exact.second_moment[8:12, 8:12], np.kron(moments.summary, moments.query), atol=1e-14
    )
    np.testing.assert_allclose(exact.cross_moment[8:12], moments.drive.ravel(), atol=1e-14)
    assert exact.label_power == pytest.approx(moments.label_power)


def test_memory_comes_first_and_learning_in_context_follows():
    """Z Fig. 5: at ρ = .6 the in-weight test falls before the in-context test does."""
    pool = ss.TaskPool.draw([0.25] * 4, context_length=31, count=1, share=0.6)
    run = ss.train(
        ss.MergedAttention(heads=8, blocks="full"),
        pool,
        method=ss.GradientFlow(until=600),
        record=600,
    )
    memory = run.dataset["loss_in_weight"].to_numpy()[0]
    context = run.dataset["loss_in_context"].to_numpy()[0]
    assert memory.min() < 0.5 * memory[0]
    first_memory = np.argmax(memory < 0.75 * memory[0])
    first_context = np.argmax(context < 0.75 * context[0])
    assert 0 < first_memory < first_context
    assert context[-1] < 0.5
    np.testing.assert_allclose(ss.evaluate(run, pool)[0], run.loss[0], atol=1e-9)
    fresh = pool.law.sample(4000, seed=5)
    assert ss.evaluate(run, fresh)[0, -1] == pytest.approx(context[-1], rel=0.15)
