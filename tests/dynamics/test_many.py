"""Many settings at once: as each alone, whatever they differ in, in as few programs as shapes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import _many, _padding
from saddlescope.dynamics._many import ManyJob
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running import programs
from saddlescope.running.observers import Saved

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
DESCENT = ss.GradientDescent(learning_rate=0.2, steps=400)
FLOW = ss.GradientFlow(until=600)


def setting(**changes: Any) -> ss.Setting:
    parts = {"model": MODEL, "task": TASK, "method": DESCENT, "init": ss.RandomStart(0.1)}
    return ss.Setting(**{**parts, "record": ss.Record(points=20), "seeds": 3, **changes})


# Whatever may differ without another shape does.
ALIKE = [
    {},
    {"task": ss.InContextRegression([0.5, 0.4], context_length=10, label_noise=0.3)},
    {"init": ss.RandomStart(0.05), "seeds": [7, 2]},
    {"init": ss.BalancedStart(0.2), "record": ss.Record(points=9)},
    {"record": ss.Record(spacing="log", points=15)},
]
ENDS = {
    "descent": [{}, {"method": ss.GradientDescent(0.1, 250)}],
    "flow": [
        {"method": FLOW},
        {"method": ss.GradientFlow(until=300, rtol=1e-7)},
        {"method": ss.GradientFlow(until=600, converged=1e-4)},
    ],
}
# Fewer heads, more dimensions and pairs: each is padded to what the other has.
OTHER = {
    "task": ss.InContextRegression([0.5, 0.3, 0.1], context_length=31),
    "model": ss.SeparateAttention(heads=2, rank=2),
}
# Programs of these are compiled by one test and used by others.
SHORT = [setting(), *(setting(method=ss.GradientFlow(until=end)) for end in (2000, 3000))]


def settings_of(method: str) -> list[ss.Setting]:
    first = ENDS[method][0]
    return [setting(**{**first, **one}) for one in (*ALIKE, *ENDS[method])]


def assert_alike(one: ss.Trajectory, alone: ss.Trajectory, atol: float = 1e-12) -> None:
    assert one.setting == alone.setting
    assert one.outcomes == alone.outcomes
    assert set(one.dataset) == set(alone.dataset)
    assert one.dataset.attrs == alone.dataset.attrs
    for name in alone.dataset.variables:
        np.testing.assert_allclose(one.dataset[name], alone.dataset[name], rtol=0, atol=atol)


@pytest.mark.parametrize("method", ENDS)
def test_each_is_as_it_is_alone(method: str) -> None:
    settings = settings_of(method)
    runs = ss.train_many(settings)
    assert len(runs) == len(settings)
    for run, one in zip(runs, settings, strict=True):
        rests = one.method.converged is not None
        # A flow that rests does so at a step, wherever the step ends: measured 2e-9.
        assert_alike(run, ss.train(one), atol=1e-8 if rests else 1e-12)


@pytest.mark.parametrize("method", [DESCENT, FLOW], ids=["descent", "flow"])
def test_smaller_ones_are_padded_and_are_none_the_worse(
    method: ss.AbstractMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_many, "padded_size", lambda size: 4)
    settings = [setting(method=method), setting(method=method, **OTHER)]
    (batch,) = ManyJob(settings)._batches
    assert batch._layout.dimension == 3
    assert dict(batch._layout.shapes) == {"v": (3,), "k": (3, 2, 3), "q": (3, 2, 3)}
    for run, one in zip(ss.train_many(settings), settings, strict=True):
        assert_alike(run, ss.train(one))


def test_a_flow_turns_stiff_by_itself() -> None:
    """Which depends on its own seeds and end, not on its neighbours."""
    long = setting(method=ss.GradientFlow(until=1e7), seeds=1)
    short = setting(method=FLOW, seeds=1)
    runs = ss.train_many([short, long])
    assert [run.dataset.attrs["solver"] for run in runs] == [
        "explicit",
        "explicit, then stiff for 100% of the seeds",
    ]
    for run, one in zip(runs, (short, long), strict=True):
        assert_alike(run, ss.train(one))


OTHERS = {
    "fresh prompts": [
        setting(method=ss.StochasticGradientDescent(rate, 30, batch_size=4, key=key))
        for rate, key in ((0.05, 0), (0.1, 1))
    ],
    "softmax": [
        setting(
            model=ss.SeparateAttention(heads=heads, activation="softmax"),
            task=TASK.sample(16, seed=seed),
            method=ss.GradientDescent(0.1, 30),
        )
        for heads, seed in ((3, 0), (3, 1), (2, 0))
    ],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_cannot_be_padded_shares_a_program_with_its_like(kind: str) -> None:
    settings = OTHERS[kind]
    assert len(ManyJob(settings)._batches) == (2 if kind == "softmax" else 1)
    for run, one in zip(ss.train_many(settings), settings, strict=True):
        assert_alike(run, ss.train(one))


SHAPE = ss.PaddedShape(dimension=3, heads=3, rank=1, seeds=2, points=20)


def of_optimiser(heads: int, rate: float) -> ss.Setting:
    method = ss.Optimiser("sgd", 40, learning_rate=rate, options={"momentum": 0.5})
    return setting(model=ss.SeparateAttention(heads), method=method, seeds=heads - 1)


def of_all_blocks(heads: int, share: float) -> ss.Setting:
    task = ss.TaskPool([0.5] * heads, 31, tasks=1, share=share)
    model = ss.MergedAttention(heads, blocks="full")
    return setting(model=model, task=task, method=ss.GradientDescent(0.2, 40), seeds=heads - 1)


@pytest.mark.usefixtures("no_program_let_go")
@pytest.mark.parametrize("make", [of_optimiser, of_all_blocks])
def test_settings_that_are_padded_to_a_shape_share_its_program(
    make: Callable[[int, float], ss.Setting],
) -> None:
    whole, small = (
        make(heads, value).replace(points=points)
        for heads, value, points in ((3, 0.1, 20), (2, 0.3, 9))
    )
    ss.train_many([whole], padded_to=SHAPE)
    before = programs._count
    (padded,) = ss.train_many([small], padded_to=SHAPE)
    assert programs._count == before
    alone = ss.train(small)
    assert_alike(padded, alone)
    assert [leaf.shape for leaf in padded.state] == [leaf.shape for leaf in alone.state]


def test_what_does_not_fit_in_a_shape_is_refused() -> None:
    for wrong, field in (
        (setting(model=ss.SeparateAttention(heads=4)), "heads = 4"),
        (setting().replace(points=30), "record.points"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(f"settings[0].{field}")):
            ss.train_many([wrong], padded_to=SHAPE)


@pytest.mark.usefixtures("no_program_let_go")
def test_settings_of_one_shape_are_compiled_once() -> None:
    def rates(*values: float) -> list[ss.Setting]:
        return [setting(method=ss.GradientDescent(rate, 50)) for rate in values]

    ss.train_many(rates(0.1, 0.2))
    before = programs._count
    runs = ss.train_many(rates(0.15, 0.25))
    assert programs._count == before
    assert runs[0].setting.method.learning_rate == 0.15  # type: ignore[attr-defined]


def test_a_row_that_diverges_says_why_and_the_others_go_on() -> None:
    settings = [setting(), setting(method=ss.GradientDescent(5.0, 300)), setting(seeds=1)]
    runs = ss.train_many(settings)
    assert [run.is_complete for run in runs] == [True] * 3
    assert {one.result for one in runs[1].outcomes} == {ss.Result.DIVERGED}
    assert runs[1].outcomes == ss.train(settings[1]).outcomes
    assert_alike(runs[0], ss.train(settings[0]))


def test_an_interruption_keeps_what_is_finished_and_resumes(short_segments: None) -> None:
    settings = SHORT
    whole = ss.train_many(settings)
    seen: list[float] = []

    def stop(snapshot: ss.Snapshot) -> None:
        seen.append(snapshot.share)
        if snapshot.share > 0.8:
            snapshot.stop()

    with pytest.raises(ss.Interrupted) as caught:
        ss.train_many(settings, observers=[stop])
    assert seen == sorted(seen)
    snapshot = caught.value.snapshot
    partial: Sequence[ss.Trajectory] = snapshot.result
    assert partial[0].equals(whole[0])
    assert not partial[2].is_complete
    assert snapshot.dataset.sizes == {"row": 9, "time": 1}
    assert snapshot.dataset["setting"].to_numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for run, expected in zip(ss.resume(snapshot), whole, strict=True):
        assert run.equals(expected)
    # One of them can be finished alone.
    assert_alike(ss.resume(partial[2]), whole[2])


def test_a_checkpoint_of_many_goes_on(tmp_path: Path, short_segments: None) -> None:
    settings = SHORT
    path = tmp_path / "checkpoint"
    watch = ss.StopWhen(lambda snapshot: snapshot.share > 0.5)
    with pytest.raises(ss.Interrupted):
        ss.train_many(settings, observers=[ss.Checkpoint(path), watch])
    assert path.exists()
    begun: list[float] = []
    runs = ss.train_many(
        settings, observers=[ss.Checkpoint(path), lambda snapshot: begun.append(snapshot.share)]
    )
    assert begun[0] > 0.5
    for run, expected in zip(runs, ss.train_many(settings), strict=True):
        assert run.equals(expected)


def test_a_state_of_other_settings_is_refused() -> None:
    job = ManyJob([setting()])
    saved = job.save(job.begin())
    assert ManyJob([setting(), setting(seeds=1)]).digest != job.digest
    for wrong in (saved.state[:-1], (*saved.state, saved.state[0])):
        with pytest.raises(CannotRead, match="not one of th"):
            job.restore(Saved(wrong))


def test_a_trajectory_goes_on_as_one_of_train_does() -> None:
    first = setting(method=ss.GradientFlow(until=300))
    (run, _) = ss.train_many([first, SHORT[1]])
    on = ss.train(MODEL, TASK, method=ss.GradientFlow(until=600), start=run, record=20)
    expected = ss.train(
        MODEL, TASK, method=ss.GradientFlow(until=600), start=ss.train(first), record=20
    )
    np.testing.assert_allclose(on.loss, expected.loss, rtol=0, atol=1e-12)
    # Exactly: the solver continues with the step that it had reached.
    whole = ss.train(setting(method=ss.GradientFlow(until=600)))
    np.testing.assert_allclose(on.loss[:, -1], whole.loss[:, -1], rtol=0, atol=1e-13)


def test_a_setting_that_cannot_run_is_named() -> None:
    wrong = setting(method=ss.GradientDescent(0.1, 5), record=ss.Record(at=[7.0]))
    with pytest.raises(ss.InvalidInput, match=r"settings\[1\].record.at = 7.0: the run ends at 5"):
        ss.train_many([setting(), wrong])


@pytest.mark.parametrize("run", [ss.train_many, ss.summarise_many])
def test_padding_to_something_else_is_refused(run: Any) -> None:
    with pytest.raises(ss.InvalidInput, match="padded_to = 4: must be a PaddedShape"):
        run([setting()], padded_to=4)


@pytest.mark.parametrize("settings", ["", {}])
def test_what_is_no_list_of_settings_is_refused(settings: Any) -> None:
    with pytest.raises(ss.InvalidInput, match=r"settings = .*: must be a list of settings"):
        ss.train_many(settings)


def test_no_settings_are_no_trajectories() -> None:
    assert ss.train_many([]) == ()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 12, 13, 100])
def test_padding_adds_less_than_half(size: int) -> None:
    assert size <= _padding.padded_size(size) < max(1.5 * size, size + 1)


@pytest.mark.parametrize("method", [DESCENT, FLOW])
def test_a_start_after_another_in_one_shape_is_as_if_it_came_first(method: Any) -> None:
    shape = ss.PaddedShape(dimension=3, heads=4, rank=1, seeds=4, points=20)
    starts = [ss.RandomStart(0.1), ss.BalancedStart(0.2), ss.RandomStart(0.05)]
    wanted = [setting(method=method, init=init) for init in starts]

    def run(one: ss.Setting) -> ss.Trajectory:
        return ss.train_many([one], padded_to=shape)[0]

    _many._kept_job.cache_clear()
    in_turn = [run(one) for one in wanted]
    for one, after_others in zip(wanted, in_turn, strict=True):
        _many._kept_job.cache_clear()
        assert run(one).equals(after_others)
        assert after_others.setting == one


def test_a_start_after_another_begins_at_its_pace() -> None:
    one = setting(method=ss.GradientDescent(0.1, 2000))
    shape = ss.PaddedShape(dimension=3, heads=4, rank=1, seeds=4, points=20)
    _many._kept_job.cache_clear()
    borders: list[list[float]] = []
    for init in (ss.RandomStart(0.1), ss.RandomStart(0.2)):
        shares: list[float] = []
        look = ss.StopWhen(lambda snapshot, shares=shares: shares.append(snapshot.share))
        ss.train_many([one.replace(init=init)], padded_to=shape, observers=[look])
        borders.append(shares)
    # The first segment of the first is short, for it may have to compile.
    assert [len(shares) for shares in borders] == [2, 1]
