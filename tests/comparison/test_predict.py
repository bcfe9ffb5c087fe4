"""The theory of a setting, before anything is run."""

import json

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.comparison import Prediction
from saddlescope.errors import InvalidInput
from saddlescope.theory import plateau_losses

TASK = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
# THEORY T7.
LEVELS = [1, 0.64058, 0.37737, 0.20980, 0.13600]


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return ss.predict(ss.SeparateAttention(heads=5), TASK, seeds=2)


def test_separate_attention_has_all_plateaus_and_fixed_points(prediction: Prediction) -> None:
    assert prediction.plateau_losses == pytest.approx(LEVELS, abs=5e-6)
    assert prediction.least_loss == pytest.approx(0.136, abs=5e-6)
    assert len(prediction.fixed_points) == 16
    assert [seed.seed for seed in prediction.seeds] == [0, 1]
    for seed in prediction.seeds:
        assert len(seed.drop_times) == 4
        known = [time for time in seed.drop_times if time is not None]
        assert known == sorted(known)
        assert all(0 < time <= prediction.until for time in known)
    assert prediction.notes == ()


def test_few_heads_reach_few_plateaus() -> None:
    reached = plateau_losses(TASK, model=ss.SeparateAttention(heads=2))
    assert reached == pytest.approx(LEVELS[:3], abs=5e-6)
    assert plateau_losses(TASK, model=ss.ConvolutionalNetwork(heads=1)).size == 2


@pytest.mark.parametrize("model", [ss.MergedAttention(8), ss.TwoLayerNetwork(8)])
def test_merged_attention_has_two_levels_and_one_drop(model) -> None:
    prediction = ss.predict(model, TASK)
    assert prediction.plateau_losses == pytest.approx([1, 0.136], abs=5e-6)
    assert len(prediction.fixed_points) == 2
    (seed,) = prediction.seeds
    assert len(seed.drop_times) == 1
    assert seed.drop_times[0] > 0


def test_what_comes_too_late_is_none() -> None:
    prediction = ss.predict(ss.SeparateAttention(heads=5), TASK, method=ss.GradientFlow(10.0))
    assert prediction.seeds[0].drop_times == (None,) * 4
    assert "—: not by 10" in str(prediction)
    soon = ss.predict(ss.MergedAttention(8), TASK, method=ss.GradientFlow(1.0))
    assert soon.seeds[0].drop_times == (None,)


def test_seeds_may_be_named_and_are_those_that_train_draws() -> None:
    task, model = ss.InContextRegression([0.6, 0.3], 31), ss.SeparateAttention(heads=3)
    named = ss.predict(model, task, method=ss.GradientFlow(2000.0), init_scale=0.1, seeds=[2, 0])
    run = ss.train(
        model, task, method=ss.GradientDescent(0.2, 5000), init_scale=0.1, seeds=3, record=200
    )
    measured = run.compare()
    assert [seed.seed for seed in named.seeds] == [2, 0]
    for seed in named.seeds:
        drops = measured.seeds[seed.seed].drops
        assert seed.drop_times == tuple(drop.predicted_time for drop in drops)


def test_covariances_that_do_not_commute_leave_levels_and_the_first_drop() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    crossed = ss.InContextRegression(turn @ np.diag([0.6, 0.3]) @ turn.T, 31, [1.0, 3.0])
    model = ss.SeparateAttention(3)
    prediction = ss.predict(model, crossed, init_scale=1e-3, seeds=2)
    assert prediction.plateau_losses == tuple(ss.theory.plateau_losses(crossed))
    assert prediction.plateau_losses[-1] == pytest.approx(prediction.least_loss, abs=1e-13)
    assert [point.index for point in prediction.fixed_points] == [0, 0, 1, 0]
    assert prediction.by == "quadrature"
    starts = ss.RandomStart(1e-3).ensemble(model, crossed, np.arange(2))
    first = ss.theory.first_drop_times(model, crossed, starts)
    assert [seed.drop_times for seed in prediction.seeds] == [(time, None) for time in first]
    (note,) = prediction.notes
    assert "first drop alone" in note
    assert "do not commute" in note
    moments = crossed.moments()
    best = np.linalg.inv(moments.summary) @ moments.drive @ np.linalg.inv(moments.query)
    least = moments.label_power - np.sum(best * moments.drive)
    assert prediction.least_loss == pytest.approx(least, rel=1e-12)
    # Where a race is asked for there is none, and merged attention has its two levels.
    race = ss.predict(model, crossed, by="race", seeds=1)
    assert (race.seeds, race.by) == ((), None)
    assert len(ss.predict(ss.MergedAttention(2), crossed).fixed_points) == 2


def test_large_starts_have_no_times_and_say_so_once() -> None:
    prediction = ss.predict(ss.SeparateAttention(5), TASK, init_scale=3.0, seeds=1)
    assert prediction.plateau_losses is not None
    assert prediction.seeds[0].drop_times == (None,) * 4
    assert len(prediction.notes) == 1
    assert "small starts" in prediction.notes[0]


def test_it_prints_and_is_json(prediction: Prediction) -> None:
    text = str(prediction)
    assert "plateaus     1.00000  0.64058" in text
    assert "least loss   0.13600" in text
    assert text.count("{") == 16
    assert "{e1, e2}" in text
    assert "{}" in text
    values = json.loads(json.dumps(prediction.to_dict(), allow_nan=False))
    assert values["plateau_losses"] == pytest.approx(LEVELS, abs=5e-6)
    assert values["seeds"][0]["drop_times"] == list(prediction.seeds[0].drop_times)


def test_many_fixed_points_are_counted_not_listed() -> None:
    prediction = ss.predict(
        ss.SeparateAttention(6),
        ss.InContextRegression("power:6", 31),
        method=ss.GradientFlow(1.0),
    )
    assert "64 fixed points (--json lists them)" in str(prediction)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_scale": 0.0}, r"init_scale = 0\.0"),
        ({"seeds": 0}, "seeds = 0"),
        ({"seeds": [-1]}, "seed.* = -1"),
        ({"seeds": []}, "seeds"),
    ],
)
def test_bad_arguments_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ss.predict(ss.SeparateAttention(5), TASK, **changes)


def test_a_setting_stands_for_all_arguments() -> None:
    model, method = ss.SeparateAttention(heads=3), ss.GradientDescent(0.2, 5000)
    setting = ss.Setting(model, TASK, method, ss.BalancedStart(0.1), seeds=[5])
    by_setting = ss.predict(setting)
    by_arguments = ss.predict(model, TASK, method=method, init=ss.BalancedStart(0.1), seeds=[5])
    assert by_setting.to_dict() == by_arguments.to_dict()
    assert by_setting.until == pytest.approx(2 * 0.2 * 5000)
    with pytest.raises(InvalidInput, match="seeds = 3: is part of the setting already"):
        ss.predict(setting, seeds=3)


def test_other_optimisers_have_no_times() -> None:
    method = ss.Optimiser("adam", steps=100, learning_rate=1e-3)
    prediction = ss.predict(ss.SeparateAttention(5), TASK, method=method)
    assert prediction.plateau_losses is not None
    assert prediction.seeds == ()
    assert "the unit of time is the step" in prediction.notes[0]


def test_a_learning_rate_that_does_not_rest_is_noted() -> None:
    model = ss.SeparateAttention(heads=2)
    stable = ss.predict(model, TASK).stable_learning_rate
    assert stable == ss.theory.staircase_sharpness(model, TASK).stable_learning_rate
    below, above = (
        ss.predict(model, TASK, method=ss.GradientDescent(share * stable, steps=10))
        for share in (0.999, 1.001)
    )
    assert below.notes == ()
    (note,) = above.notes
    assert "not stable at the minimal-norm weights of plateaus 1, 2: below 1.591" in note
    assert below.stable_learning_rate == above.to_dict()["stable_learning_rate"] == stable
    assert "stable rate  1.5907, below which" in str(below)
    assert "stable rate: 1.5907, below which" in below._repr_html_()
    assert below.to_dataset()["stable_learning_rate"] == stable


def test_no_stable_learning_rate_is_said_where_one_is_asked_for() -> None:
    full, method = ss.SeparateAttention(heads=2, blocks="full"), ss.GradientDescent(0.1, steps=10)
    told = ss.predict(full, TASK, method=method)
    assert told.stable_learning_rate is None
    assert any("no stable learning rate: all blocks" in note for note in told.notes)
    assert "stable" not in str(ss.predict(full, TASK, method=ss.GradientFlow(1.0)))
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    crossed = ss.InContextRegression(turn @ np.diag([0.6, 0.3]) @ turn.T, 31, [1.0, 3.0])
    merged = ss.predict(ss.MergedAttention(3), crossed, method=method).stable_learning_rate
    assert merged is not None
    assert merged < 10


QUADRATURE = {"init_scale": 1e-3, "seeds": 3, "method": ss.GradientFlow(until=100_000)}


def test_quadratures_are_near_the_race_and_both_are_named() -> None:
    task = ss.InContextRegression([0.4, 0.3], context_length=31)
    model = ss.SeparateAttention(heads=3)
    race, quadrature = (
        ss.predict(model, task, by=by, **QUADRATURE) for by in ("race", "quadrature")
    )
    assert (race.by, quadrature.by) == ("race", "quadrature")
    for one, other in zip(race.seeds, quadrature.seeds, strict=True):
        assert len(other.margins) == len(other.drop_times) == 2
        for time, near in zip(one.drop_times, other.drop_times, strict=True):
            assert near == pytest.approx(time, rel=1e-2)
    assert "by the race of the heads (T13)" in str(race)
    assert "by quadrature (T18)" in str(quadrature)
    assert quadrature.to_dict()["by"] == "quadrature"


def test_many_seeds_are_left_to_the_quadratures() -> None:
    task = ss.InContextRegression([0.4, 0.3], context_length=31)
    model = ss.SeparateAttention(heads=3)
    many = ss.predict(model, task, init_scale=1e-3, seeds=1001)
    few = ss.predict(model, task, init_scale=1e-3, seeds=[7, 1000], by="quadrature")
    assert many.by == "quadrature"
    assert many.seeds[1000].drop_times == pytest.approx(few.seeds[1].drop_times, rel=1e-12)
    merged = ss.predict(ss.MergedAttention(heads=3), task, seeds=2)
    assert merged.by == "time course"


def test_of_higher_rank_quadratures_have_every_drop() -> None:
    task = ss.InContextRegression([0.4, 0.3], context_length=31)
    model = ss.SeparateAttention(heads=3, rank=2)
    found = ss.predict(model, task, by="quadrature", **QUADRATURE)
    race = ss.predict(model, task, by="race", **QUADRATURE)
    for one, other in zip(race.seeds, found.seeds, strict=True):
        assert other.drop_times == pytest.approx(one.drop_times, rel=1e-3)


def test_a_large_start_has_no_times_by_either() -> None:
    task = ss.InContextRegression([0.4, 0.3], context_length=31)
    found = ss.predict(ss.SeparateAttention(3), task, init_scale=2.0, seeds=2, by="quadrature")
    assert all(time is None for seed in found.seeds for time in seed.drop_times)
    assert any("small starts: 2 seeds" in note for note in found.notes)
    with pytest.raises(ss.InvalidInput, match="by = 'guess'"):
        ss.predict(ss.SeparateAttention(3), task, by="guess")


def test_seeds_that_would_not_fit_are_refused_before_they_are_drawn() -> None:
    task, model = ss.InContextRegression([0.4, 0.3], context_length=31), ss.SeparateAttention(2000)
    with pytest.raises(ss.InvalidInput, match="seeds"):
        ss.predict(model, task, seeds=10**7)


def test_what_comes_after_the_end_stands_in_brackets() -> None:
    model = ss.SeparateAttention(heads=3)
    early = ss.GradientFlow(until=10.0)
    for by in ("race", "quadrature"):
        found = ss.predict(model, TASK, method=early, init_scale=0.01, seeds=2, by=by)
        later = ss.predict(model, TASK, init_scale=0.01, seeds=2, by=by)
        for one, other in zip(found.seeds, later.seeds, strict=True):
            assert one.drop_times == (None,) * 3
            # That of the quadrature, which the race is near.
            assert one.next_time == pytest.approx(other.drop_times[0], rel=1e-4)
            assert one.cells == (f"({one.next_time:.1f})", "—", "—")
        assert "in brackets" in str(found)
        assert found.to_dict()["seeds"][0]["next_time"] == found.seeds[0].next_time


def test_a_close_race_is_marked() -> None:
    """Two heads that are nearly the same: of the later drops nothing can be sure at this scale."""
    model = ss.SeparateAttention(heads=3)
    lengths = np.array([0.1, 0.0995, 0.03])
    pairs = np.zeros((3, 1, 4))
    pairs[:, 0, 0], pairs[:, 0, 1] = lengths, 0.1 * lengths
    weights = {"v": lengths, "k": pairs, "q": pairs}
    for by in ("race", "quadrature"):
        seed = ss.predict(model, TASK, weights=weights, seeds=1, by=by).seeds[0]
        assert seed.is_open[0]
        assert seed.cells[0].endswith("?")
        assert 0 <= seed.margins[0] < 6 * ss.theory.modes(TASK).rise_time[0]
        alone = {name: array[[0, 2]] for name, array in weights.items()}
        far = ss.predict(ss.SeparateAttention(2), TASK, weights=alone, seeds=1, by=by).seeds[0]
        assert not far.is_open[0]


def test_a_seed_of_which_nothing_is_predicted_has_no_next_time() -> None:
    """A head of most of its final length, though the loss is that of zero weights."""
    pairs = np.full((2, 1, 4), 1e-3)
    weights = {"v": np.array([1.2, 0.01]), "k": pairs, "q": pairs}
    found = ss.predict(ss.SeparateAttention(2), TASK, weights=weights, seeds=1, by="race")
    assert found.seeds[0].next_time is None
    assert found.seeds[0].drop_times == (None, None)
    assert any(note.startswith("seed 0: the start is large") for note in found.notes)
