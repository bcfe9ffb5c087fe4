"""The flow and the losses of heads of which some have won, in the eigenbasis (T13)."""

import numpy as np
import pytest

from saddlescope.theory import modes
from saddlescope.theory.staircase._heads import Heads

NOTHING = np.zeros((3, 3))


def draw_rows(heads, rank, seed=0):
    return 0.3 * np.random.default_rng(seed).standard_normal((heads, 1 + 2 * rank * 3))


def as_weights(rows, rank, basis):
    """Rows as the weights of an attention, in the task's own coordinates."""
    keys, queries = np.split(rows[:, 1:], 2, axis=1)
    shape = (len(rows), rank, 3)
    return {
        "v": rows[:, 0],
        "k": keys.reshape(shape) @ basis.T,
        "q": queries.reshape(shape) @ basis.T,
    }


@pytest.mark.parametrize("rank", [1, 2])
def test_a_head_that_nobody_disturbs_moves_as_if_alone(commuting, flow_of, rank):
    task = commuting(3, 5)
    found, rows = modes(task), draw_rows(4, rank)
    heads = Heads(found, rank, learned=[], standing=NOTHING, held=0)
    speeds, (together, losses) = heads.velocity(rows), heads.losses(rows)
    assert together == pytest.approx(found.label_power)
    for head in range(4):
        flow = flow_of(task, as_weights(rows[[head]], rank, found.basis))
        assert losses[head] == pytest.approx(flow.loss(flow.start), rel=1e-12)
        expected = flow.unpack(flow.velocity(0.0, flow.start))
        turned = as_weights(speeds[[head]], rank, found.basis)
        for name, values in expected.items():
            np.testing.assert_allclose(turned[name], values, atol=1e-13)


@pytest.mark.parametrize("rank", [1, 2])
def test_winners_move_together_as_one_attention_where_they_share_no_direction(
    commuting, flow_of, rank
):
    """The first winner feels nobody, the second the first; with both the loss is that of both."""
    task = commuting(3, 5)
    found, rows = modes(task), np.zeros((2, 1 + 2 * rank * 3))
    for head, mode in enumerate((0, 2)):
        rows[head, 0] = 0.4
        rows[head, [1 + mode, 1 + 3 * rank + mode]] = 0.5
    heads = Heads(found, rank, learned=[1, 1], standing=NOTHING, held=0)
    together, others = heads.losses(rows)
    flow = flow_of(task, as_weights(rows, rank, found.basis))
    assert together == pytest.approx(flow.loss(flow.start), rel=1e-12)
    assert others.size == 0


@pytest.mark.parametrize("rank", [1, 2])
def test_every_head_descends_the_loss_that_it_makes(commuting, rank):
    """Its velocity is −½ of the slope of the loss with it, winners before it held still."""
    found, rows = modes(commuting(3, 5)), draw_rows(4, rank, seed=1)
    standing = np.diag(found.amplitude * [1, 0, 0])
    heads = Heads(found, rank, learned=[1], standing=standing, held=1)
    speeds, step = heads.velocity(rows), 1e-6
    # The winner moves with the rest of the winners, the others each with all of them.
    for head in range(4):
        for entry in range(rows.shape[1]):
            ends = []
            for side in (step, -step):
                moved = rows.copy()
                moved[head, entry] += side
                together, others = heads.losses(moved)
                ends.append(together if head == 0 else others[head - 1])
            slope = (ends[0] - ends[1]) / (2 * step)
            assert speeds[head, entry] == pytest.approx(-slope / 2, abs=1e-8)


def test_own_maps_leave_out_what_the_winners_hold(commuting):
    found, rows = modes(commuting(3, 5)), draw_rows(2, 1, seed=2)
    standing = np.diag(found.amplitude * [1, 0, 0])
    heads = Heads(found, 1, learned=[], standing=standing, held=1)
    maps = heads.own_maps(rows)
    for head, (value, *others) in enumerate(rows):
        key, query = np.split(np.array(others), 2)
        expected = value * np.outer(key, query)
        expected[0], expected[:, 0] = 0.0, 0.0
        np.testing.assert_allclose(maps[head], expected, atol=1e-14)


def test_what_stands_lowers_the_loss_by_its_drop(paper):
    task_modes = modes(paper)
    standing = np.diag(task_modes.amplitude * [1, 1, 0, 0])
    heads = Heads(task_modes, 1, learned=[], standing=standing, held=2)
    together, _ = heads.losses(np.zeros((1, 9)))
    assert together == pytest.approx(task_modes.levels[2], rel=1e-14)
