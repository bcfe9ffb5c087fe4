"""Tiny versions of both experiments, end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running import Snapshot
from saddlescope.transformer import (
    GrokkingExperiment,
    InductionExperiment,
    _experiment,
    emergence,
    generalisation_step,
    memorisation_step,
)


@pytest.fixture(scope="module")
def induced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, xr.Dataset, list[Snapshot]]:
    folder, borders = tmp_path_factory.mktemp("induction"), list[Snapshot]()
    return folder, InductionExperiment.quick().run(folder, [borders.append]), borders


def test_two_layers_learn_to_induce_and_one_does_not(induced: Any) -> None:
    _, dataset, _ = induced
    when = emergence(dataset)
    assert when.dims == ("layers", "seed")
    assert np.isnan(when.sel(layers=1)).all()
    assert ((when.sel(layers=2) > 20) & (when.sel(layers=2) < 400)).all()
    last = dataset.isel(step=-1, seed=0)
    assert last["prefix_matching"].sel(layers=2, layer=1).max() > 0.7
    assert last["copying"].sel(layers=2, layer=1).max() > 0.7
    # ln 32 nats are there to be gained; one layer gets what the set of the tokens is worth.
    assert last["in_context_score"].sel(layers=2) < -0.8 * np.log(32)
    assert last["in_context_score"].sel(layers=1) > -0.5 * np.log(32)


def test_depths_share_axes_and_what_a_depth_lacks_is_nan(induced: Any) -> None:
    _, dataset, _ = induced
    assert dataset["layers"].to_numpy().tolist() == [1, 2]
    assert dataset["qk_marginal_rank"].dims == ("layers", "seed", "step", "layer", "head")
    assert np.isnan(dataset["qk_marginal_rank"].sel(layers=1, layer=1)).all()
    assert np.isfinite(dataset["qk_marginal_rank"].sel(layers=2)).all()


def test_what_is_shown_is_the_share_of_all_depths(induced: Any) -> None:
    _, _, borders = induced
    shares = [snapshot.share for snapshot in borders]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    # One layer and two: two parts of five, and three.
    first = [snapshot.share for snapshot in borders if snapshot.job is borders[0].job]
    assert first[-1] == pytest.approx(2 / 5)
    assert borders[-1].dataset.sizes["layer"] == 2


def test_only_metrics_are_left_and_are_read_again(induced: Any) -> None:
    folder, dataset, _ = induced
    assert sorted(file.name for file in folder.iterdir()) == ["manifest.json", "metrics.nc"]
    again = InductionExperiment.quick().run(folder)
    xr.testing.assert_identical(again, dataset)
    with pytest.raises(CannotRead, match="belongs to another experiment"):
        InductionExperiment.quick(steps=100).run(folder)


def test_finished_depths_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = InductionExperiment.quick(steps=4, record=2, vocabulary=8, context=16, d_model=8)
    trained: list[int] = []
    fit = _experiment.fit

    def fit_once(shape: Any, *arguments: Any, **options: Any) -> Any:
        trained.append(shape.layers)
        if len(trained) == 2:
            raise RuntimeError("broken off")
        return fit(shape, *arguments, **options)

    monkeypatch.setattr(_experiment, "fit", fit_once)
    with pytest.raises(RuntimeError, match="broken off"):
        tiny.run(tmp_path)
    dataset = tiny.run(tmp_path)
    assert trained == [1, 2, 2]
    whole = tiny.run()
    xr.testing.assert_allclose(dataset, whole, rtol=1e-6)


@pytest.mark.parametrize("corpus", ["text", "triggers"])
def test_other_corpora_train_too(corpus: str, tmp_path: Path) -> None:
    vocabulary = {"text": 270, "triggers": 8}[corpus]
    tiny = InductionExperiment.quick(
        corpus=corpus,
        text_path=__file__ if corpus == "text" else None,
        vocabulary=vocabulary,
        layers=(1,),
        steps=4,
        record=2,
        context=16,
        d_model=8,
    )
    assert np.isfinite(tiny.run(tmp_path)["loss"]).all()


def curve(scores: list[float], matching: list[float] | None = None) -> xr.Dataset:
    steps = np.arange(len(scores)) * 10
    heads = np.zeros(len(scores)) if matching is None else np.array(matching)
    axes = ("layers", "seed", "step")
    return xr.Dataset(
        {
            "in_context_score": (axes, np.array([[scores]])),
            "prefix_matching": ((*axes, "layer", "head"), heads[None, None, :, None, None]),
        },
        coords={"layers": [2], "seed": [0], "step": steps},
    )


def test_emergence_is_the_middle_of_an_abrupt_fall_of_the_score() -> None:
    scores = [0.0] * 6 + [-1, -3, -4, -4, -4, -4, -4]
    assert emergence(curve(scores)).item() == 70
    assert np.isnan(emergence(curve([-x for x in scores])).item())
    assert np.isnan(emergence(curve([np.nan] * len(scores))).item())


def test_a_slow_fall_is_no_emergence_unless_it_is_asked_for() -> None:
    """From step 10 to step 80, a factor 8, evenly in the logarithm."""
    steps = np.arange(1, 13)
    scores = [0.0, *np.interp(np.log(steps), np.log([1, 8]), [0.0, -2.0])]
    assert np.isnan(emergence(curve(scores)).item())
    assert emergence(curve(scores), factor=9.0).item() == 30


def test_noise_is_no_emergence() -> None:
    noise = np.random.default_rng(0).normal(size=60)
    assert np.isnan(emergence(curve(noise.tolist())).item())


def test_heads_tell_an_emergence_by_matching_prefixes_well() -> None:
    flat, matching = [0.0] * 12, [0.03] * 5 + [0.2] + [0.5] * 6
    assert emergence(curve(flat, matching), by="heads").item() == 50
    poor = [0.3 * value for value in matching]
    assert np.isnan(emergence(curve(flat, poor), by="heads").item())


@pytest.fixture(scope="module")
def grokked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, xr.Dataset]:
    folder = tmp_path_factory.mktemp("grokking")
    return folder, GrokkingExperiment.quick().run(folder)


def test_it_memorises_first_and_generalises_later(grokked: Any) -> None:
    _, dataset = grokked
    first, then = memorisation_step(dataset), generalisation_step(dataset)
    assert first.dims == then.dims == ("seed",)
    assert (first < then).all()
    assert (dataset["test_accuracy"].isel(step=-1) > 0.9).all()
    assert (dataset["test_loss"].isel(step=-1) < dataset["test_loss"].isel(step=2)).all()
    assert np.isnan(generalisation_step(dataset.isel(step=slice(2)))).all()


def test_embedding_power_is_labelled_by_frequency(grokked: Any) -> None:
    folder, dataset = grokked
    power = dataset["embedding_power"]
    assert power.dims == ("seed", "step", "frequency")
    assert power["frequency"].to_numpy().tolist() == list(range(1, 9))
    np.testing.assert_allclose(power.sum("frequency"), 1, rtol=1e-5)
    assert sorted(file.name for file in folder.iterdir()) == ["manifest.json", "metrics.nc"]
    again = GrokkingExperiment.quick().run(folder)
    xr.testing.assert_identical(again, dataset)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: InductionExperiment(layers=()), "layers"),
        (lambda: InductionExperiment(layers=(0,)), "layers"),
        (lambda: InductionExperiment(corpus="web"), "corpus"),
        (lambda: InductionExperiment.large("web"), "corpus"),
        (lambda: InductionExperiment(heads=5), "d_model"),
        (lambda: InductionExperiment(learning_rate=-1), "learning_rate"),
        (lambda: InductionExperiment(record=1), "record"),
        (lambda: GrokkingExperiment(p=10), "p"),
        (lambda: GrokkingExperiment(share=2), "share"),
        (lambda: GrokkingExperiment(steps=0), "steps"),
        (lambda: GrokkingExperiment(seeds=-1), "seeds"),
        (lambda: emergence(xr.Dataset()), "dataset"),
        (lambda: emergence(xr.Dataset(), by="loss"), "by"),
        (lambda: InductionExperiment(cooldown=-1), "cooldown"),
        (lambda: generalisation_step("metrics.nc"), "dataset"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert refused.value.field == field


def test_presets_are_valid() -> None:
    for corpus in ("repeated", "text", "triggers"):
        assert InductionExperiment.large(corpus).seeds == (0, 1, 2)
    theirs = GrokkingExperiment.large()
    assert (theirs.p, theirs.share, theirs.d_model, theirs.d_mlp) == (113, 0.3, 128, 512)


def test_a_text_that_is_not_there_is_named_by_its_field() -> None:
    experiment = InductionExperiment(corpus="text", text_path="no/such/text")
    for read in (experiment.inputs, experiment.make_source):
        with pytest.raises(InvalidInput, match="text_path = 'no/such/text': must be a file"):
            read()
