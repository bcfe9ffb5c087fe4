"""The flow and the losses of heads of which some have won, in the eigenbasis (T13)."""

import numpy as np
import pytest

from saddlescope.theory import modes
from saddlescope.theory.staircase._heads import Heads, Spans
from saddlescope.theory.staircase._order import Order


def draw_rows(heads, rank, seed=0):
    """Heads of two seeds, [H, n, 2]."""
    return 0.3 * np.random.default_rng(seed).standard_normal((heads, 1 + 2 * rank * 3, 2))


def make(task_modes, rank, heads, *, moving=(), settled=(), own=None):
    """Heads of which these hold the mode of their own number, the settled ones before the rest."""
    winners = [*settled, *moving]
    place, held = np.full((heads, 2), -1), np.full((heads, task_modes.dimension, 2), False)
    for number, head in enumerate(winners):
        place[head], held[head, head] = number, True
    order = Order(place, held, np.isin(np.arange(heads), settled)[:, None] & (place >= 0))
    spans = Spans.none(heads, task_modes.dimension, 2)
    if own is not None:
        spans = Spans.of(task_modes, order, own)
    return Heads(task_modes, rank, order, spans)


def as_weights(rows, rank, basis):
    """Rows of one seed as the weights of an attention, in the task's own coordinates."""
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
    heads = make(found, rank, 4)
    felt = heads.felt(rows)
    np.testing.assert_array_equal(felt.velocity, heads.velocity(rows))
    assert (heads.settled_fall == 0).all()
    for head in range(4):
        flow = flow_of(task, as_weights(rows[[head], :, 1], rank, found.basis))
        loss = found.label_power - felt.falls[head, 1]
        assert loss == pytest.approx(flow.loss(flow.start), rel=1e-12)
        expected = flow.unpack(flow.velocity(0.0, flow.start))
        turned = as_weights(felt.velocity[[head], :, 1], rank, found.basis)
        for name, values in expected.items():
            np.testing.assert_allclose(turned[name], values, atol=1e-13)


@pytest.mark.parametrize("rank", [1, 2])
def test_winners_move_together_as_one_attention_where_they_share_no_direction(
    commuting, flow_of, rank
):
    """The first winner feels nobody, the second the first; with both the loss is that of both."""
    task = commuting(3, 5)
    found, rows = modes(task), np.zeros((2, 1 + 2 * rank * 3, 2))
    for head in range(2):
        rows[head, 0] = 0.4
        rows[head, [1 + head, 1 + 3 * rank + head]] = 0.5
    own = make(found, rank, 2).felt(rows).own
    heads = make(found, rank, 2, moving=[0, 1], own=own)
    flow = flow_of(task, as_weights(rows[:, :, 0], rank, found.basis))
    loss = found.label_power - heads.felt(rows).falls[:, 0].sum()
    assert loss == pytest.approx(flow.loss(flow.start), rel=1e-12)


@pytest.mark.parametrize("rank", [1, 2])
def test_every_head_descends_the_loss_that_it_makes(commuting, rank):
    """Its velocity is −½ of the slope of the loss with it, winners before it held still."""
    found, rows = modes(commuting(3, 5)), draw_rows(4, rank, seed=1)
    own = make(found, rank, 4, settled=[0]).felt(rows).own
    heads = make(found, rank, 4, settled=[0], moving=[1], own=own)
    speeds, step = heads.velocity(rows), 1e-6
    for head in range(1, 4):
        for entry in range(rows.shape[1]):
            ends = []
            for side in (step, -step):
                moved = rows.copy()
                moved[head, entry] += side
                ends.append(heads.felt(moved).falls[head])
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(speeds[head, entry], slope / 2, atol=1e-8)


def test_own_maps_leave_out_what_the_winners_hold(commuting):
    found, rows = modes(commuting(3, 5)), draw_rows(3, 1, seed=2)
    free = make(found, 1, 3, settled=[0]).felt(rows).own
    own = make(found, 1, 3, settled=[0], moving=[1], own=free).felt(rows).own
    assert (own[2, 0] == 0).all()
    assert (own[2, :, 0] == 0).all()
    # Of the winner that moves it is the whitened key and query that count.
    left, right = np.sqrt(found.summary), np.sqrt(found.query_eigenvalues)
    key, query = rows[1, 1:4].copy(), rows[1, 4:].copy()
    key[0], query[0] = 0.0, 0.0
    assert np.abs(np.einsum("des,ds,d->es", own[2], key, left**2)).max() < 1e-14
    assert np.abs(np.einsum("des,es,e->ds", own[2], query, right**2)).max() < 1e-14


def test_the_spans_of_a_head_of_two_pairs_are_its_leading_directions(commuting):
    found, rows = modes(commuting(3, 5)), draw_rows(2, 2, seed=3)
    own = make(found, 2, 2).felt(rows).own
    order = Order(
        np.array([[0, 0], [-1, -1]]),
        np.array([[[True, True], [False, True], [False, False]], np.full((3, 2), False)]),
        np.full((2, 2), False),
    )
    spans = Spans.of(found, order, own)
    whitened = own[0] * np.sqrt(np.outer(found.summary, found.query_eigenvalues))[:, :, None]
    for seed, count in ((0, 1), (1, 2)):
        left, _, right = np.linalg.svd(whitened[:, :, seed])
        np.testing.assert_allclose(
            spans.left[0, :, :, seed], left[:, :count] @ left[:, :count].T, atol=1e-12
        )
        np.testing.assert_allclose(
            spans.right[0, :, :, seed], right[:count].T @ right[:count], atol=1e-12
        )
    assert (spans.left[1] == 0).all()


def test_what_stands_lowers_the_loss_by_its_drop(paper):
    task_modes = modes(paper)
    heads = make(task_modes, 1, 3, settled=[0, 1])
    np.testing.assert_allclose(task_modes.label_power - heads.settled_fall, task_modes.levels[2])
