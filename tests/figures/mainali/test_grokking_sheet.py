"""When a grokking run does what, on measures made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.mainali.grokking_sheet import (
    GrokkingBounds,
    delay_claims,
    grokking_claims,
    grokking_numbers,
)

BOUNDS = GrokkingBounds(delay=2.0, ov=(0.5, 2.0), rank=0.8)

STEP = np.arange(0, 1001, 10)


def run(memorises=100, generalises=600, ov=500, qk=700):
    """One seed, one layer, two heads, eight frequencies of which the last six count."""
    one = (1, len(STEP))
    per_head = (1, 1, 2, len(STEP))
    power = np.zeros((1, len(STEP), 8))
    power[0, :, 2:] = [0.05, 0.15, 0.25, 0.2, 0.1, 0.25]
    return xr.Dataset(
        {
            "train_accuracy": (("seed", "step"), np.where(memorises <= STEP, 1.0, 0.2)[None]),
            "test_accuracy": (("seed", "step"), np.where(generalises <= STEP, 1.0, 0.1)[None]),
            "train_loss": (("seed", "step"), np.zeros(one)),
            "test_loss": (("seed", "step"), np.zeros(one)),
            "ov_distance": (
                ("seed", "layer", "head", "step"),
                np.broadcast_to(np.where(ov >= STEP, 0.8, 0.1), per_head),
            ),
            "qk_distance": (
                ("seed", "layer", "head", "step"),
                np.broadcast_to(np.where(qk >= STEP, 0.8, 0.1), per_head),
            ),
            "ov_marginal_rank": (
                ("seed", "layer", "head", "step"),
                np.broadcast_to(np.linspace(10.0, 5.0, len(STEP)), per_head),
            ),
            "qk_marginal_rank": (("seed", "layer", "head", "step"), np.ones(per_head)),
            "embedding_power": (("seed", "step", "frequency"), power),
        },
        coords={"step": STEP},
    )


def test_the_steps_are_those_at_which_it_happened():
    data = grokking_numbers(run())
    assert data["memorisation"].item() == 100
    assert data["generalisation"].item() == 600
    assert (data["ov_half_step"].item(), data["qk_half_step"].item()) == (500, 700)


def test_the_five_strongest_frequencies():
    np.testing.assert_allclose(grokking_numbers(run())["leading_power"], 0.95)


def test_what_holds_of_a_run_that_groks():
    claims = grokking_claims(grokking_numbers(run()), BOUNDS)
    assert {claim.verdict.value for claim in claims} == {"holds"}


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({"memorises": 400}, "the model generalises long after it has memorised"),
        ({"ov": 200, "qk": 700}, "the OV subspace distance is halved late"),
        ({"ov": 650, "qk": 900, "generalises": 300}, "the OV subspace distance is halved no later"),
        ({"qk": 400}, "the QK subspace distance is halved later still"),
    ],
)
def test_each_claim_about_times_can_fail(changes, failing):
    claims = grokking_claims(grokking_numbers(run(**changes)), BOUNDS)
    failed = [claim.name for claim in claims if claim.verdict == "fails"]
    assert len(failed) == 1
    assert failed[0].startswith(failing)


def test_a_run_that_does_not_generalise_is_not_judged():
    data = grokking_numbers(run(generalises=2000))
    assert delay_claims(data, 2.0)[0].verdict == "not judged"
    assert delay_claims(data, 2.0)[1].verdict == "fails"
