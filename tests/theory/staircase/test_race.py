"""Who wins the next drop, and from when on the others feel it (T13)."""

import numpy as np
import pytest

from saddlescope.task import InContextRegression
from saddlescope.theory import head_time_course, modes
from saddlescope.theory.staircase._race import Crossing, Moment, Race


def make_race(task, lengths, rank=1):
    """Head d on eigenvector d with v = ‖k‖ = ‖q‖ of a given length."""
    size, rows = task.dimension, np.zeros((len(lengths), 1 + 2 * rank * task.dimension))
    for head, length in enumerate(lengths):
        rows[head, [0, 1 + head, 1 + rank * size + head]] = length
    return Race(modes(task), rows, rank)


def test_the_first_crossing_is_that_of_the_fastest_head(paper):
    race = make_race(paper, [0.02, 0.02, 0.02])
    crossing = race.next_crossing(until=1e6)
    assert (crossing.head, crossing.mode) == (0, 0)
    expected = head_time_course(paper, 0, 0.02, [0.0]).drop_time
    # The race is followed to 1e-6.
    assert crossing.moment.time == pytest.approx(expected, rel=1e-5)


def test_a_longer_start_can_beat_a_stronger_drive(paper):
    race = make_race(paper, [0.01, 0.1])
    crossing = race.next_crossing(until=1e6)
    assert (crossing.head, crossing.mode) == (1, 1)


def test_heads_on_axes_of_their_own_do_not_hinder_one_another(paper):
    race, starts = make_race(paper, [0.05, 0.02, 0.02]), [0.05, 0.02, 0.02]
    for mode, start in enumerate(starts):
        crossing = race.next_crossing(until=1e6)
        assert crossing.mode == mode
        expected = head_time_course(paper, mode, start, [0.0]).drop_time
        assert crossing.moment.time == pytest.approx(expected, rel=1e-5)
        race.award(crossing)
    assert race.count == 3
    assert race.is_over


def test_after_a_win_the_race_goes_back_to_where_nobody_felt_the_winner(paper):
    race = make_race(paper, [0.02, 0.02])
    crossing = race.next_crossing(until=1e6)
    race.award(crossing)
    assert race.winners == [0]
    assert 0 < race.now.time < crossing.moment.time
    # There it had done less than a ten-thousandth of its drop: 2u³ − u⁶, u its share of the rest.
    share = race.now.rows[0, 0] / np.cbrt(race.modes.amplitude[0])
    assert 2 * share**3 - share**6 < 1e-4


def test_none_crosses_in_time(paper):
    race = make_race(paper, [0.02])
    assert race.next_crossing(until=10.0) is None
    assert race.now.time == pytest.approx(10.0)


def test_what_a_start_holds_is_awarded_at_once(paper):
    rest = np.cbrt(modes(paper).amplitude)
    race = make_race(paper, [rest[0], rest[1], 0.02])
    race.award_start()
    assert race.learned == {0: [0], 1: [1], 2: []}
    assert race.now.time == 0


def test_a_full_winner_that_has_arrived_stands_still(paper):
    race = make_race(paper, [0.02, 0.02])
    found = race.modes
    race.award(Crossing(race.now, head=0, mode=0))
    near, far = (np.diag(found.amplitude * [share, 0, 0, 0]) for share in (1 - 1e-5, 0.9))
    assert not race.settle({0: far})
    assert race.now.settled == {}
    assert race.settle({0: near})
    np.testing.assert_allclose(race.now.settled[0], np.diag(found.amplitude * [1, 0, 0, 0]))


def test_a_winner_with_a_free_pair_does_not_settle(paper):
    race = make_race(paper, [0.02, 0.02], rank=2)
    race.award(Crossing(race.now, head=0, mode=0))
    assert race.has_room(0)
    assert not race.settle({0: np.diag(race.modes.amplitude * [1, 0, 0, 0])})


def test_equal_eigenvalues_are_counted_out_one_by_one():
    task = InContextRegression([0.3, 0.3, 0.2], 31)
    race = make_race(task, [0.02, 0.02], rank=2)
    race.award(Crossing(race.now, head=0, mode=0))
    turned = np.zeros((3, 3))
    turned[:2, :2] = race.modes.amplitude[0] * np.array([[0.5, 0.5], [0.5, 0.5]])
    # Head 0 holds one direction of the two, whichever it is; head 1 grows the other.
    assert race.most_grown({0: turned, 1: 0.5 * turned}) == (1, 1)


def test_a_moment_keeps_those_that_do_not_move(paper):
    moment = Moment(1.0, np.zeros((2, 9)), {})
    race = make_race(paper, [0.02, 0.02])
    race.now = moment
    race.still_quiet([1])
    race.award(Crossing(Moment(2.0, np.ones((2, 9)), {}), head=1, mode=1))
    assert race.now is moment
