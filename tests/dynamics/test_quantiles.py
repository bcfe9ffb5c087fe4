"""Quantiles over seeds: those of the trajectories, in chunks, interrupted and resumed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import record
from saddlescope.report import write_run_page

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
MODEL = ss.SeparateAttention(heads=3)
SHARES = (0.0, 0.05, 0.5, 0.95, 1.0)


def setting(keep: str = "quantiles", **changes: Any) -> ss.Setting:
    parts = {"model": MODEL, "task": TASK, "init": ss.RandomStart(0.1), "seeds": 50}
    parts |= {"method": ss.GradientDescent(learning_rate=0.2, steps=3000)}
    return ss.Setting(**{**parts, "record": ss.Record(points=7, keep=keep), **changes})


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen seeds at once: three chunks of thirteen and one of eleven."""
    monkeypatch.setattr(record, "_FEWEST_TOGETHER", 13)
    monkeypatch.setattr(record, "_NUMBERS_TOGETHER", 13)


@pytest.mark.usefixtures("small_chunks")
def test_they_are_those_of_the_trajectories() -> None:
    run = ss.train(setting())
    whole = ss.train(setting("trajectory"))
    assert run.outcomes == whole.outcomes
    assert run.dataset.attrs["rank_error"] == 0
    expected = whole.summary(quantiles=SHARES)
    kept = run.summary(quantiles=SHARES)
    assert set(kept) == set(expected)
    exact = np.quantile(whole.loss, SHARES, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(kept["loss"], exact, rtol=1e-9)
    np.testing.assert_array_equal(expected["loss"], exact)
    np.testing.assert_allclose(kept["final_loss"], exact[:, -1], rtol=1e-9)
    np.testing.assert_array_equal(kept["ended"], expected["ended"])
    # Events, against a run that keeps the drops of each seed.
    of_seeds = ss.train(setting("drops")).summary()
    for name in ("drop_time", "plateau_loss", "learned_time"):
        quantiles_of_seeds = np.quantile(of_seeds[name], SHARES, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(kept[name], quantiles_of_seeds, rtol=1e-6)
    learned = of_seeds["order"].to_numpy()[:, :, None] == np.arange(2)
    np.testing.assert_allclose(kept["order_share"], learned.mean(axis=0))


@pytest.mark.usefixtures("small_chunks")
def test_a_flow_keeps_them_too() -> None:
    flow = {"method": ss.GradientFlow(until=800), "seeds": 20}
    kept = ss.train(setting(**flow)).summary(quantiles=SHARES)
    of_seeds = ss.train(setting("drops", **flow)).summary()
    for name in ("drop_time", "plateau_loss", "learned_time"):
        quantiles_of_seeds = np.quantile(of_seeds[name], SHARES, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(kept[name], quantiles_of_seeds, rtol=1e-8)
    final = np.quantile(of_seeds["final_loss"], SHARES, method="inverted_cdf")
    np.testing.assert_allclose(kept["final_loss"], final, rtol=1e-8)


@pytest.mark.usefixtures("small_chunks")
def test_interrupted_in_a_chunk_it_resumes_to_the_same_quantiles(tmp_path: Path) -> None:
    whole = ss.train(setting())
    seen: list[float] = []

    def stop(snapshot: ss.Snapshot) -> None:
        seen.append(snapshot.share)
        if snapshot.share > 0.6:
            snapshot.stop()

    with pytest.raises(ss.Interrupted) as stopped:
        ss.train(setting(), observers=[stop])
    part = stopped.value.snapshot.result
    assert seen == sorted(seen)
    assert not part.is_complete
    assert part.outcomes.are(ss.Result.FINISHED).sum() in (26, 39)
    assert ss.resume(stopped.value.snapshot).equals(whole)
    part.save(tmp_path / "part")
    assert ss.resume(ss.load(tmp_path / "part")).equals(whole)
    whole.save(tmp_path / "whole")
    assert ss.load(tmp_path / "whole").equals(whole)


def test_a_state_of_another_setting_is_refused(tmp_path: Path) -> None:
    def stop(snapshot: ss.Snapshot) -> None:
        snapshot.stop()

    with pytest.raises(ss.Interrupted):
        ss.train(setting(), observers=[stop, ss.Checkpoint(tmp_path / "state")])
    with pytest.raises(ss.SaddlescopeError, match="another"):
        ss.train(setting(seeds=40), observers=[ss.Checkpoint(tmp_path / "state")])


@pytest.mark.usefixtures("small_chunks")
def test_seeds_that_diverge_are_counted_and_lie_above_all_others() -> None:
    run = ss.train(setting(init=ss.RandomStart(3.0), seeds=30))
    diverged = int(run.summary()["ended"].sel(result="diverged"))
    assert 0 < diverged < 30
    assert len(run.outcomes.messages) == diverged
    kept = run.summary(quantiles=[(30 - diverged) / 30, 1.0])
    assert np.isfinite(kept["loss"][0]).all()
    assert np.isnan(kept["loss"][1, -1])


def test_a_model_without_levels_keeps_the_loss() -> None:
    model = ss.SeparateAttention(heads=2, activation="softmax")
    method = ss.GradientDescent(learning_rate=0.05, steps=20)
    run = ss.train(setting(model=model, task=TASK.sample(30), method=method, seeds=4))
    assert run.summary()["drop_time"].shape == (1001, 0)
    assert np.isfinite(run.loss).all()


def test_what_has_no_seeds_says_so(tmp_path: Path) -> None:
    run = ss.train(setting(seeds=9))
    assert "9 seeds, 7 points" in repr(run)
    for ask in (lambda: run.plot(seed=3), lambda: run.weights(), run.stages):
        with pytest.raises(ss.InvalidInput, match="kept"):
            ask()
    with pytest.raises(ss.InvalidInput, match="quantiles"):
        run.summary(quantiles=[2.0])
    with pytest.raises(ss.InvalidInput, match=r"settings\[0\].record.keep"):
        ss.train_many([setting()])
    page = write_run_page(run, tmp_path / "index.html").read_text()
    assert "nine tenths of them" in page
    assert "<table" not in page
    text = str(run.compare())
    assert "time of drop 2:" in text
    assert "9 finished" in text
    assert run.plot().axes[0].get_legend_handles_labels()[1][-1] == "median"
