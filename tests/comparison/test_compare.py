"""Measured beside predicted."""

import dataclasses
import json
import re
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.comparison import Comparison, DropComparison, SeedComparison

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
DESCENT = ss.GradientDescent(learning_rate=0.2, steps=5000)
# T7.
LEVELS = [0.9, 0.9 - 0.6 / (1 + 2.5 / 31), 0.9 - 0.6 / (1 + 2.5 / 31) - 0.3 / (1 + 4 / 31)]


def train(**changes: Any) -> ss.Trajectory:
    arguments = {"method": ss.GradientFlow(until=2000), "init_scale": 0.1, "seeds": 3, **changes}
    if {"weights", "init", "start"} & set(changes):
        del arguments["init_scale"]
    model, task = arguments.pop("model", MODEL), arguments.pop("task", TASK)
    return ss.train(model, task, **{"record": 200, **arguments})


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    return train()


@pytest.fixture(scope="module")
def comparison(run: ss.Trajectory) -> Comparison:
    return run.compare()


def test_drops_are_where_the_loss_crosses_midway(comparison: Comparison) -> None:
    assert comparison.plateau_losses == pytest.approx(LEVELS, rel=1e-12)
    middles = np.add(LEVELS[:-1], LEVELS[1:]) / 2
    drops = [(s, d) for s in comparison.seeds for d in s.drops]
    # The same run, recorded within a tenth of each of the six times, and nowhere else.
    near = np.concatenate([d.time + np.linspace(-0.1, 0.1, 33) for _, d in drops])
    again = train(record=np.sort(near))
    for seed, drop in drops:
        curve = again.loss[seed.seed]
        crossed = np.interp(drop.time, again.time, curve)
        slope = np.gradient(curve, again.time)[np.searchsorted(again.time, drop.time)]
        # The comparison's own refined grid is 10/199 wide; its cubic is far better than that.
        assert abs(crossed - middles[drop.number - 1]) < abs(slope) * 0.01


def test_predictions_come_from_the_initial_weights_alone(comparison: Comparison) -> None:
    for seed in comparison.seeds:
        weights = ss.RandomStart(0.1).weights(MODEL, TASK, seed.seed)
        staircase = ss.theory.predict_staircase(MODEL, TASK, weights, until=2000.0)
        predicted = [drop.time for drop in staircase.drops]
        # A seed takes the same steps alone and among others, but for rounding.
        assert [drop.predicted_time for drop in seed.drops] == pytest.approx(predicted, rel=1e-9)
        assert [drop.is_open for drop in seed.drops] == [drop.is_open for drop in staircase.drops]
        for drop in seed.drops:
            # T13 errs by a per cent or so at this scale; a wrong clock would err by a half.
            assert drop.error == pytest.approx(0.0, abs=0.03)
            assert drop.error == drop.predicted_time / drop.time - 1


def test_losses_stand_beside_their_levels(run: ss.Trajectory, comparison: Comparison) -> None:
    for place, seed in enumerate(comparison.seeds):
        assert seed.seed == place
        assert [drop.number for drop in seed.drops] == [1, 2]
        assert seed.drops[0].loss_after == seed.drops[1].loss_before
        measured = [seed.drops[0].loss_before, *(drop.loss_after for drop in seed.drops)]
        np.testing.assert_allclose(measured, LEVELS, atol=1e-3)
        assert seed.final_loss == run.loss[place, -1]
        assert seed.result == "finished"
        # Solver tolerance of the flow.
        assert seed.conserved_drift is not None
        assert seed.conserved_drift < 1e-7


def test_a_drop_that_does_not_come_is_none() -> None:
    short = train(method=ss.GradientFlow(until=200)).compare()
    late = short.seeds[2]
    assert late.drops[0].time is not None
    assert late.drops[1].time is None
    assert late.drops[1].predicted_time is None
    assert late.drops[1].loss_after is None
    assert late.drops[1].loss_before == pytest.approx(LEVELS[1], abs=1e-3)
    assert late.drops[1].error is None


def test_coarse_records_do_not_spoil_the_times() -> None:
    fine, coarse = (train(method=DESCENT, record=points).compare() for points in (200, 50))
    for rough, exact in zip(coarse.seeds, fine.seeds, strict=True):
        for one, other in zip(rough.drops, exact.drops, strict=True):
            # Records are 40 apart; followed again from the one before, the grid is 40/49 wide.
            assert one.time == pytest.approx(other.time, abs=0.1)


def test_descent_is_compared_on_the_clock_of_flow(comparison: Comparison) -> None:
    descent = train(method=ss.GradientDescent(0.02, 50_000)).compare()
    for slow, flow in zip(descent.seeds, comparison.seeds, strict=True):
        for one, other in zip(slow.drops, flow.drops, strict=True):
            # Descent lags by O(η): about half a per cent at this rate.
            assert one.time == pytest.approx(other.time, rel=0.01)
            assert one.predicted_time == other.predicted_time


def test_without_weights_times_lie_between_the_same_records() -> None:
    full = train(method=DESCENT)
    lean = train(method=DESCENT, record=ss.Record(points=200, weights=False)).compare()
    for one, other in zip(lean.seeds, full.compare().seeds, strict=True):
        assert one.conserved_drift is None
        for left, right in zip(one.drops, other.drops, strict=True):
            assert np.searchsorted(full.time, left.time) == np.searchsorted(full.time, right.time)


def test_merged_attention_has_one_drop() -> None:
    result = train(model=ss.MergedAttention(3), method=DESCENT).compare()
    assert result.plateau_losses == pytest.approx([LEVELS[0], LEVELS[-1]], rel=1e-12)
    for seed in result.seeds:
        (drop,) = seed.drops
        assert drop.error == pytest.approx(0.0, abs=0.1)


def test_where_the_theory_is_silent_the_notes_say_why() -> None:
    data = train(task=TASK.sample(2000, seed=1), method=DESCENT)
    result = data.compare()
    assert result.plateau_losses is None
    assert any("given data" in note for note in result.notes)
    # The curve itself shows its drops.
    measured = data.stages()
    for seed, stages in zip(result.seeds, measured, strict=True):
        assert [drop.time for drop in seed.drops] == [drop.time for drop in stages.drops]
        assert all(drop.predicted_time is None for drop in seed.drops)


def test_covariances_that_do_not_commute_have_levels_and_a_first_drop() -> None:
    crossed = ss.InContextRegression([[0.5, 0.1], [0.1, 0.3]], 31, task_covariance=[1.0, 3.0])
    result = train(task=crossed, init_scale=0.01, method=DESCENT).compare()
    assert result.plateau_losses == tuple(ss.theory.plateau_losses(crossed))
    assert sum("first drop alone" in note for note in result.notes) == 1
    for seed in result.seeds:
        first, second = seed.drops
        # Descent at a rate of .2 lags behind flow by as much.
        assert first.error == pytest.approx(0, abs=1e-2)
        assert second.predicted_time is None


def test_large_starts_and_later_parts_have_levels_but_no_times() -> None:
    large = train(init_scale=2.0).compare()
    assert large.plateau_losses is not None
    assert any("small starts" in note for note in large.notes)
    first = train(method=ss.GradientFlow(until=100))
    later = train(start=first, seeds=None).compare()
    assert any("goes on from an earlier one" in note for note in later.notes)
    for seed in (*large.seeds, *later.seeds):
        assert all(drop.predicted_time is None for drop in seed.drops)
    assert len(large.notes) == len(set(large.notes)), "a note is said once"


def test_a_diverged_seed_is_told_with_its_cure() -> None:
    run = train(method=ss.GradientDescent(3.0, 500))
    result = run.compare()
    for place, seed in enumerate(result.seeds):
        assert seed.result == "diverged"
        assert "try learning_rate" in seed.message
        finite = run.loss[place][np.isfinite(run.loss[place])]
        assert seed.final_loss == finite[-1]
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert "seed 0: diverged at step" in str(result)


def test_the_dictionary_is_the_contract(comparison: Comparison) -> None:
    values = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert set(values) == {"plateau_losses", "seeds", "notes"}
    assert values["plateau_losses"] == pytest.approx(LEVELS)
    seed = values["seeds"][0]
    assert {"seed", "final_loss", "result", "drops"} <= set(seed)
    assert {"time", "predicted_time", "loss_before", "loss_after"} <= set(seed["drops"][0])


EMPTY = Comparison(None, (SeedComparison(0, ss.Result.FINISHED, "", None, None, ()),), ())
GAPS = Comparison(
    (1.0, 0.5),
    (
        SeedComparison(
            3, ss.Result.DIVERGED, "why", 0.7, 1e-9, (DropComparison(1, None, 2.0, 0.7, None),)
        ),
    ),
    ("a note",),
)


def test_the_table_prints_aligned(comparison: Comparison) -> None:
    lines = str(comparison).splitlines()
    assert " ".join(lines[0].split()) == "seed drop loss before loss after time predicted error"
    rows = lines[2:8]
    assert [row.split()[:2] for row in rows] == [[str(s), str(d)] for s in range(3) for d in (1, 2)]
    assert len({len(line) for line in lines[:8]}) == 1
    assert any(line.startswith("predicted plateaus: 0.90000, 0.34478") for line in lines)


def test_the_table_says_where_there_is_nothing() -> None:
    text = str(GAPS)
    cells = re.split(" {2,}", text.splitlines()[2].strip())
    # A run that ended before, and a theory that has nothing to say, are told apart.
    assert cells == ["3", "1", "0.70000", "not seen", "not seen", "2.0", "—"]
    assert "seed 3: why" in text
    assert text.endswith("a note")
    assert "seed" in str(EMPTY)


def test_data_frame_and_latex_hold_the_same(comparison: Comparison) -> None:
    frame = comparison.to_dataframe()
    assert len(frame) == 6
    assert frame["time"].tolist() == [d.time for s in comparison.seeds for d in s.drops]
    assert frame["error"].tolist() == [d.error for s in comparison.seeds for d in s.drops]
    latex = comparison.to_latex()
    assert latex.count(r"\\") == 7
    assert "—" not in GAPS.to_latex()
    assert len(EMPTY.to_dataframe()) == 0
    assert list(EMPTY.to_dataframe().columns) == list(frame.columns)


def test_html_is_escaped() -> None:
    hostile = dataclasses.replace(GAPS, notes=("a < b & <script>alert(1)</script>",))
    html = hostile._repr_html_()
    assert "<script>" not in html
    assert "a &lt; b &amp; " in html
