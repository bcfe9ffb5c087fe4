"""`fit`: labels, seeds, records, going on from a checkpoint, and what is refused."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr

import saddlescope as ss
from saddlescope.errors import CannotRead, Interrupted, InvalidInput
from saddlescope.transformer import (
    DecoderShape,
    Fit,
    ModularArithmetic,
    RepeatedTokens,
    fit,
)
from saddlescope.transformer._training import _HELD_OUT, _HELD_OUT_KEY

SOURCE = RepeatedTokens(8, context=16, shortest=2, longest=8)
SHAPE = DecoderShape(8, 16, layers=2, heads=2, d_model=8)
# One shape for nearly all trainings of this file: it is compiled once.
USUAL: dict[str, Any] = {"steps": 12, "batch_size": 4, "seeds": (3, 5), "record": (0, 4, 8, 12)}


def train(**changes: Any) -> Fit:
    return fit(changes.pop("shape", SHAPE), changes.pop("source", SOURCE), **{**USUAL, **changes})


@pytest.fixture(scope="module")
def usual() -> Fit:
    return train()


def test_the_dataset_is_labelled(usual: Fit) -> None:
    dataset = usual.dataset
    heads = ("seed", "step", "layer", "head")
    for name in ("prefix_matching", "copying", "qk_marginal_rank", "ov_marginal_rank"):
        assert dataset[name].dims == heads
    for name in ("qk_effective_rank", "ov_effective_rank", "qk_distance", "ov_distance"):
        assert dataset[name].dims == heads
    for name in ("loss", "in_context_score", "embedding_distance"):
        assert dataset[name].dims == ("seed", "step")
    assert dataset["token_loss"].dims == ("seed", "step", "position")
    assert dataset["norm"].dims == ("seed", "step", "weight")
    assert dataset["seed"].to_numpy().tolist() == [3, 5]
    assert dataset["step"].to_numpy().tolist() == [0, 4, 8, 12]
    assert dataset["weight"].to_numpy().tolist() == list(SHAPE.weights)
    setting = json.loads(dataset.attrs["setting"])
    assert setting["format"] == 2
    assert setting["source"]["kind"] == "repeated_tokens"
    assert not dataset["diverged"].any()
    for name, variable in dataset.data_vars.items():
        assert name == "diverged" or variable.dtype == np.float64
        # The first record has none before it to drift from.
        known = variable.isel(step=slice(1, None)) if "drift" in name else variable
        assert np.isfinite(known).all(), name


def test_distances_end_at_zero_and_ranks_are_within_bounds(usual: Fit) -> None:
    dataset = usual.dataset
    for name in ("qk_distance", "ov_distance", "embedding_distance"):
        assert np.abs(dataset[name].isel(step=-1)).max() < 1e-6
        assert (dataset[name].isel(step=0) > 1e-3).all()
        assert ((dataset[name] >= 0) & (dataset[name] <= 1)).all()
    # A head of four dimensions; one less without the leading one.
    assert ((dataset["qk_effective_rank"] >= 1) & (dataset["qk_effective_rank"] <= 4)).all()
    assert ((dataset["qk_marginal_rank"] >= 1) & (dataset["qk_marginal_rank"] <= 3)).all()


def test_the_metrics_are_those_of_the_final_weights(usual: Fit) -> None:
    sequences = SOURCE.held_out(jax.random.key(_HELD_OUT_KEY), _HELD_OUT)
    for place, seed in enumerate(usual.dataset["seed"].to_numpy().tolist()):
        decoder = usual.decoder(seed)
        losses = np.asarray(eqx.filter_jit(type(decoder).token_losses)(decoder, sequences))
        last = usual.dataset.isel(seed=place, step=-1)
        np.testing.assert_allclose(last["token_loss"], losses.mean(0), rtol=1e-5)
        assert float(last["loss"]) == pytest.approx(losses.mean(), rel=1e-5)
        for name, array in usual.weights.items():
            norm = np.linalg.norm(array[place])
            assert float(last["norm"].sel(weight=name)) == pytest.approx(norm, rel=1e-5)


def test_a_decoder_is_named_by_its_seed(usual: Fit) -> None:
    labelled = dataclasses.replace(usual, dataset=usual.dataset.assign_coords(seed=[3, 7]))
    for name, array in labelled.decoder(7).weights.items():
        np.testing.assert_array_equal(array, usual.weights[name][1])
    with pytest.raises(InvalidInput, match="seed = 1: the training has seeds 3, 7"):
        labelled.decoder(1)


def test_training_lowers_the_loss() -> None:
    dataset = train(steps=150, record=2, learning_rate=1e-2).dataset
    # Half of the tokens that repeat can be told from the others within a sequence.
    assert (dataset["loss"].isel(step=-1) < 0.95 * np.log(8)).all()
    assert (dataset["in_context_score"].isel(step=-1) < -0.2).all()


@pytest.mark.parametrize("together", [False, True])
def test_a_seed_does_not_depend_on_its_company(usual: Fit, together: bool) -> None:
    other = train(seeds=(5, 7), together=together)
    # Single precision, after twelve steps.
    for name, array in other.weights.items():
        np.testing.assert_allclose(array[0], usual.weights[name][1], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(
        other.dataset["loss"].sel(seed=5), usual.dataset["loss"].sel(seed=5), rtol=1e-4
    )


def test_seeds_differ(usual: Fit) -> None:
    for array in usual.weights.values():
        assert not np.allclose(array[0], array[1])


def test_the_usual_optimiser_is_taken() -> None:
    """One step without warm-up moves each weight by the learning rate, against its gradient."""
    one = {"steps": 1, "record": 2, "warmup": 0}
    still = train(**one, learning_rate=1e-12).weights["W_Q"]
    moved = train(**one, learning_rate=0.01).weights["W_Q"]
    np.testing.assert_allclose(np.abs(moved - still), 0.01, rtol=1e-2)
    warming = train(**{**one, "warmup": 4}, learning_rate=0.01).weights["W_Q"]
    np.testing.assert_allclose(np.abs(warming - still), 0.0025, rtol=1e-2)
    decayed = train(**one, learning_rate=0.01, weight_decay=2.0).weights["W_Q"]
    np.testing.assert_allclose(moved - decayed, 0.02 * still, atol=1e-6)


@pytest.mark.usefixtures("short_segments")
def test_nothing_is_compiled_anew_between_segments(caplog: pytest.LogCaptureFixture) -> None:
    train()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        train(steps=11, record=(0, 1, 5, 11), learning_rate=1e-3, betas=(0.8, 0.9))
    compiled = [record.getMessage() for record in caplog.records]
    assert not [message for message in compiled if "_advance" in message], compiled


@pytest.mark.usefixtures("short_segments")
def test_progress_rises_to_one() -> None:
    shares: list[float] = []
    train(observers=[lambda snapshot: shares.append(snapshot.share)])
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) > 4


def broken_off(folder: Path, **changes: Any) -> Interrupted:
    """Stop a training past its middle; its checkpoint is in the folder."""
    stop = ss.StopWhen(lambda snapshot: snapshot.share > 0.6)
    with pytest.raises(Interrupted) as stopped:
        train(observers=[ss.Checkpoint(folder), stop], **changes)
    return stopped.value


@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("together", [False, True])
def test_a_training_that_broke_off_goes_on_to_the_same_bits(tmp_path: Path, together: bool) -> None:
    whole = train(together=together)
    stopped = broken_off(tmp_path / "run", together=together)
    shares: list[float] = []
    observers = [ss.Checkpoint(tmp_path / "run"), lambda snapshot: shares.append(snapshot.share)]
    again = train(together=together, observers=observers)
    assert shares[0] > 0.7, "it began anew"
    for rest in (again, ss.resume(stopped.snapshot)):
        xr.testing.assert_identical(rest.dataset, whole.dataset)
        for name, array in whole.weights.items():
            np.testing.assert_array_equal(rest.weights[name], array)


@pytest.mark.usefixtures("short_segments")
def test_another_trainings_checkpoint_is_not_taken(tmp_path: Path) -> None:
    broken_off(tmp_path)
    with pytest.raises(CannotRead, match="belongs to another setting"):
        train(observers=[ss.Checkpoint(tmp_path)], learning_rate=1e-3)


@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("damage", ["cut", "foreign", "record"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    broken_off(tmp_path)
    (state,) = tmp_path.glob("state-*.npz")
    if damage == "cut":
        state.write_bytes(state.read_bytes()[:-7])
    elif damage == "foreign":
        state.write_bytes(b"not a checkpoint")
    else:
        (tmp_path / "record-000000.npz").unlink()
    with pytest.raises(CannotRead, match="remove it to start anew"):
        train(observers=[ss.Checkpoint(tmp_path)])


@pytest.mark.usefixtures("short_segments")
def test_an_interruption_keeps_what_was_evaluated(tmp_path: Path, usual: Fit) -> None:
    dataset = broken_off(tmp_path).snapshot.dataset
    assert dataset["step"].to_numpy().tolist() == [0, 4, 8]
    np.testing.assert_array_equal(dataset["loss"], usual.dataset["loss"][:, :3])


def test_a_seed_that_diverges_is_marked() -> None:
    found = train(learning_rate=1e30, weight_decay=1e30, steps=8, record=(0, 8), warmup=0)
    assert found.dataset["diverged"].all()
    last = found.dataset.isel(step=-1)
    for name in ("qk_distance", "qk_marginal_rank", "prefix_matching", "in_context_score"):
        assert np.isnan(last[name]).all(), name
    assert np.isfinite(found.dataset.isel(step=0)["qk_marginal_rank"]).all()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"shape": "large"}, "shape"),
        ({"source": "text"}, "source"),
        ({"source": RepeatedTokens(9, context=16, shortest=2, longest=8)}, "vocabulary"),
        ({"source": RepeatedTokens(8, context=17, shortest=2, longest=8)}, "context"),
        ({"steps": 0}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"betas": (0.9,)}, "betas"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"warmup": -1}, "warmup"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"seeds": ()}, "seeds"),
        ({"record": 1}, "record"),
        ({"record": (0, 5)}, "record"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ss.InvalidInput) as refused:
        train(**changes)
    assert isinstance(refused.value, InvalidInput)
    assert refused.value.field == field


def test_fourier_power_is_a_share_of_each_frequency() -> None:
    source = ModularArithmetic(7, share=0.6)
    shape = DecoderShape(8, 3, layers=1, heads=1, d_model=4, d_mlp=4, outputs=7)
    training = fit(shape, source, steps=2, record=2)
    power = training.dataset["embedding_power"].isel(seed=0, step=-1).to_numpy()
    embedding = training.weights["W_E"][0, :7].astype(np.float64)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(1, 4), np.arange(7)) / 7)
    expected = (np.abs(turns @ embedding) ** 2).sum(1)
    np.testing.assert_allclose(power, expected / expected.sum(), rtol=1e-4)
