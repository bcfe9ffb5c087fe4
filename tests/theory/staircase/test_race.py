"""Who wins the next drop, and from when on the others feel it (T13)."""

import numpy as np
import pytest

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.errors import InvalidInput
from saddlescope.task import InContextRegression
from saddlescope.theory import (
    first_drop_times,
    head_time_course,
    modes,
    predict_staircase,
    predict_staircases,
)
from saddlescope.theory.staircase._race import Race


def on_axes(task, lengths, rank=1):
    """Head d on eigenvector d with v = ‖k‖ = ‖q‖ of a given length."""
    heads = len(lengths)
    pairs = np.zeros((heads, rank, task.dimension))
    pairs[np.arange(heads), 0, np.arange(heads)] = lengths
    return {"v": np.array(lengths), "k": pairs, "q": pairs.copy()}


def test_heads_on_axes_of_their_own_do_not_hinder_one_another(paper):
    starts = [0.05, 0.02, 0.02]
    staircase = predict_staircase(SeparateAttention(3), paper, on_axes(paper, starts))
    for mode, (start, drop) in enumerate(zip(starts, staircase.drops, strict=True)):
        assert (drop.head, drop.direction) == (mode, mode)
        expected = head_time_course(paper, mode, start, [0.0]).drop_time
        # Followed to 1e-6, from where a map is a hundred-thousandth of what it will be.
        assert drop.time == pytest.approx(expected, rel=3e-5)
    assert staircase.not_by_then == (3,)
    assert staircase.next_time is None


def test_a_longer_start_can_beat_a_stronger_drive(paper):
    (first, *_) = predict_staircase(SeparateAttention(2), paper, on_axes(paper, [0.01, 0.1])).drops
    assert (first.head, first.direction) == (1, 1)


def test_what_does_not_come_in_time_has_the_time_of_the_quadrature(paper):
    model, weights = SeparateAttention(2), on_axes(paper, [0.02, 0.02])
    staircase = predict_staircase(model, paper, weights, until=10.0)
    assert staircase.drops == ()
    assert staircase.not_by_then == (0, 1, 2, 3)
    seeds = {name: array[None] for name, array in weights.items()}
    expected = float(first_drop_times(model, paper, seeds)[0])
    assert staircase.next_time == pytest.approx(expected, rel=1e-9)


def test_a_margin_is_how_much_later_another_head_would_have_come(paper):
    one = predict_staircase(SeparateAttention(2), paper, on_axes(paper, [0.02, 0.0]))
    weights = on_axes(paper, [0.02, 0.0])
    weights["v"][1], weights["k"][1, 0, 0], weights["q"][1, 0, 0] = [0.019] * 3
    two = predict_staircase(SeparateAttention(2), paper, weights)
    expected = head_time_course(paper, 0, 0.019, [0.0]).drop_time - one.drops[0].time
    assert two.drops[0].margin == pytest.approx(expected, rel=1e-3)
    assert one.drops[0].margin == np.inf


def test_what_a_start_holds_is_awarded_at_once(paper):
    rest = np.cbrt(modes(paper).amplitude)
    weights = on_axes(paper, [rest[0], rest[1], 0.02])
    staircase = predict_staircase(SeparateAttention(3), paper, weights)
    assert staircase.learned_at_start == (0, 1)
    assert [drop.direction for drop in staircase.drops] == [2]
    assert staircase.drops[0].loss_before == pytest.approx(modes(paper).levels[2])


def test_equal_eigenvalues_are_counted_out_one_by_one():
    task = InContextRegression([0.3, 0.3, 0.2], 31)
    weights = on_axes(task, [0.03, 0.02, 0.01])
    # One direction of the two for each head, whichever it is: here both diagonals.
    weights["k"][:2, :, :2] = np.sqrt(0.5) * np.array([[[0.03, 0.03]], [[0.02, -0.02]]])
    weights["q"] = weights["k"].copy()
    staircase = predict_staircase(SeparateAttention(3), task, weights)
    assert [drop.head for drop in staircase.drops] == [0, 1, 2]
    assert sorted(drop.direction for drop in staircase.drops[:2]) == [0, 1]
    for drop, start in zip(staircase.drops[:2], (0.03, 0.02), strict=True):
        expected = head_time_course(task, 0, start, [0.0]).drop_time
        assert drop.time == pytest.approx(expected, rel=1e-5)


def test_a_seed_is_as_it_is_alone(paper):
    model = SeparateAttention(4, rank=2)
    starts = RandomStart(0.03).ensemble(model, paper, np.arange(5))
    many = predict_staircases(model, paper, starts, 3e4)
    for seed in (0, 4):
        alone = predict_staircase(model, paper, {n: a[seed] for n, a in starts.items()}, 3e4)
        times = [drop.time for drop in alone.drops]
        # Each seed takes its own steps: what differs is the rounding.
        assert [drop.time for drop in many.of(seed).drops] == pytest.approx(times, rel=1e-9)
    with pytest.raises(InvalidInput, match="must be those of one seed"):
        predict_staircase(model, paper, starts)


def test_eigenvalues_far_apart_are_followed_to_the_end():
    task, model = InContextRegression([0.6047, 0.3066, 0.0609, 0.0275, 0.000267], 20), 4
    attention = SeparateAttention(model, rank=2)
    found = predict_staircases(
        attention, task, RandomStart(0.01).ensemble(attention, task, np.arange(3)), 6e4
    )
    assert not found.stuck.any()
    assert np.isfinite(found.time[:, :2]).all()
    assert (found.next_time[~np.isfinite(found.time[:, -1])] > 6e4).all()


def test_after_a_win_the_race_goes_back_to_where_nobody_felt_the_winner(paper, monkeypatch):
    moments = []
    restart = Race._restart

    def watched(self, seeds, moment):
        moments.append((self._now.time[0], moment))
        restart(self, seeds, moment)

    monkeypatch.setattr(Race, "_restart", watched)
    predict_staircase(SeparateAttention(1), paper, on_axes(paper, [0.02]))
    before, moment = moments[-1]
    assert 0 < moment.time[0] < before
    # There it had done less than a ten-thousandth of its drop: 2u³ − u⁶, u its share of the rest.
    share = moment.rows[0, 0, 0] / np.cbrt(modes(paper).amplitude[0])
    assert 2 * share**3 - share**6 < 1e-4


@pytest.mark.parametrize("rank", [1, 2])
def test_what_is_felt_at_the_end_of_a_step_is_what_is_felt_where_the_next_begins(
    paper, monkeypatch, rank
):
    known = []
    feel = Race._feel

    def watched(self):
        known.append(self._felt is not None)
        felt, anew = feel(self), self._standing.heads.felt(self._now.rows)
        for name, own in vars(anew).items():
            np.testing.assert_allclose(getattr(felt, name), own, rtol=1e-9, atol=1e-12)
        return felt

    monkeypatch.setattr(Race, "_feel", watched)
    model = SeparateAttention(4, rank)
    weights = RandomStart(0.02).ensemble(model, paper, np.arange(3))
    assert np.isfinite(predict_staircases(model, paper, weights, 6e4).time[:, 0]).all()
    assert 0.5 < np.mean(known) < 1


def test_a_winner_that_has_nothing_of_the_next_mode_waits_for_ever():
    """However long another head takes: what is not there does not grow."""
    task, model = InContextRegression([0.4, 0.3], 31), SeparateAttention(2, rank=2)
    rest = np.cbrt(modes(task).amplitude[0])
    pairs = np.zeros((2, 2, 2))
    pairs[0, 0, 0] = rest
    pairs[1] = 1e-4 * np.array([[1.0, 0.5], [-0.3, 1.0]])
    weights = {"v": np.array([rest, 1e-4]), "k": pairs, "q": pairs}
    staircase = predict_staircase(model, task, weights, until=1e7)
    assert staircase.learned_at_start == (0,)
    assert [(drop.head, drop.direction) for drop in staircase.drops] == [(1, 1)]


def test_no_seeds_are_no_drops(paper):
    model = SeparateAttention(2)
    starts = RandomStart(0.1).ensemble(model, paper, np.array([], dtype=int))
    assert predict_staircases(model, paper, starts).time.shape == (0, 2)
