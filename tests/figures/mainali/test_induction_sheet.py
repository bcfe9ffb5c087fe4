"""Falls, half-times and paces of decoders, on measures made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.mainali import induction_claims, induction_sheet
from saddlescope.figures.mainali.induction_claims import InductionBounds
from saddlescope.transformer import InductionExperiment

STEP = np.arange(0.0, 1001.0, 10.0)


def curve(values):
    return xr.DataArray(np.asarray(values), dims="step", coords={"step": STEP})


def decoder(rank, event):
    """One layer of two heads beside a layer that is not there."""
    ranks = np.full((2, 2, len(STEP)), np.nan)
    ranks[0] = rank
    return xr.Dataset(
        {"qk_marginal_rank": (("layer", "head", "step"), ranks), "emergence": event},
        coords={"step": STEP},
    )


def test_the_fall_around_an_emergence_and_what_comes_back():
    """From 8 at 400 down to 2 at 500, and up to 5 at the end: half of the fall comes back."""
    rank = np.interp(STEP, [0, 300, 400, 500, 1000], [8, 8, 8, 2, 5])
    fall, regained = induction_sheet._fall(decoder(rank, 450.0))
    assert fall == pytest.approx(6.0)
    assert regained == pytest.approx(0.5)


def test_falls_outside_do_not_count():
    rank = np.interp(STEP, [0, 100, 1000], [9, 2, 2])
    fall, regained = induction_sheet._fall(decoder(rank, 600.0))
    assert fall == 0
    assert np.isnan(regained)


def test_without_an_emergence_the_largest_fall_in_as_wide_a_stretch():
    """A rank that falls by 1 every 100 steps: within [c/1.5, 1.5c] by (1.5 - 1/1.5)c/100."""
    rank = 10 - STEP / 100
    fall, _ = induction_sheet._fall(decoder(rank, np.nan))
    widest = 1000 / 1.5  # the last centre whose stretch ends within the run
    assert fall == pytest.approx((1.5 - 1 / 1.5) * widest / 100, abs=0.2)


def test_half_steps_are_when_a_curve_stays_below_half():
    early = np.where(STEP < 200, 1.0, 0.1)
    relapse = np.where((STEP < 200) | (np.abs(STEP - 700) < 5), 1.0, 0.1)
    assert induction_sheet.last_above_half(curve(early)) == 190
    assert induction_sheet.last_above_half(curve(relapse)) == 700


def test_the_pace_of_a_straight_line_is_one():
    straight = curve(1 - STEP / 1000)
    assert induction_sheet._pace(straight, xr.DataArray(400.0)) == pytest.approx(1.0)
    assert np.isnan(induction_sheet._pace(straight, xr.DataArray(np.nan)))
    # All of it around the emergence: from 270 to 600 instead of from 0 to 1000.
    sudden = curve(np.interp(STEP, [0, 270, 600, 1000], [1.0, 1.0, 0.0, 0.0]))
    assert induction_sheet._pace(sudden, xr.DataArray(400.0)) == pytest.approx(1000 / 330, rel=0.01)


def depths(emerges):
    """Depths 1 and 2, two seeds."""
    event = xr.DataArray(
        np.where(emerges, 300.0, np.nan), dims=("layers", "seed"), coords={"layers": [1, 2]}
    )
    return xr.Dataset({"emergence": event, "emergence_by_heads": event})


@pytest.mark.parametrize(
    ("emerges", "verdict"),
    [
        ([[False, False], [True, True]], "holds"),
        ([[True, False], [True, True]], "fails"),
        ([[False, False], [True, False]], "fails"),
    ],
)
def test_emergence_is_for_two_layers_and_more(emerges, verdict):
    data = depths(emerges)
    assert induction_claims.emergence_claim(data).verdict == verdict
    assert induction_claims.head_claim(data).verdict == verdict


def test_the_rank_is_judged_against_one_layer_where_there_is_one():
    data = xr.Dataset(
        {
            "qk_fall": (("layers", "seed"), [[1.0, 1.0], [3.0, 2.0]]),
            "qk_return": (("layers", "seed"), [[np.nan, np.nan], [0.1, 0.2]]),
            "qk_marginal_rank": ("step", [10.0, 8.0]),
        },
        coords={"layers": [1, 2]},
    )

    def verdicts(data, **bounds):
        usual = {"rank_share": 0.2, "rank_ratio": 2.0, "distance_left": (0, 1), "distance_pace": 1}
        judged = induction_claims.rank_claims(data, InductionBounds(**{**usual, **bounds}))
        return [claim.verdict for claim in judged]

    # They fall by 2.5 in the median: a quarter of 10, and two and a half times as far as one layer.
    assert verdicts(data) == ["holds", "holds", "fails"]
    assert verdicts(data, rank_share=0.3) == ["fails", "holds", "fails"]
    assert verdicts(data, rank_ratio=3.0) == ["holds", "fails", "fails"]
    assert verdicts(data.sel(layers=[2])) == ["holds", "fails"]


def decoders(distance, event):
    """Depths 1, 2 and 3 of one seed, whose subspace distance is halved at some step."""
    steps = np.array([0.0, 100.0, 200.0, 300.0, 400.0])
    rows = np.array([np.where(steps <= half, 0.8, 0.2) for half in distance])[:, None]
    data = xr.Dataset(
        {"distance": (("layers", "seed", "step"), rows), "emergence": (("layers", "seed"), event)},
        coords={"layers": [1, 2, 3], "step": steps},
    )
    return data.assign(
        half_step=induction_sheet.last_above_half(data["distance"]),
        distance_left=xr.full_like(data["emergence"], 0.6),
        distance_pace=xr.full_like(data["emergence"], 1.4),
    )


@pytest.mark.parametrize(
    ("distance", "early", "before", "deeper"),
    [
        # Two fifths and three quarters of 400 steps; the emergence is at step 200.
        ((300, 300, 300), "fails", "fails", "holds"),
        ((300, 100, 100), "holds", "holds", "holds"),
        ((300, 100, 300), "fails", "fails", "fails"),
        ((300, 300, 200), "fails", "fails", "holds"),
    ],
)
def test_what_the_caption_of_figure_5_says_can_hold_and_fail(distance, early, before, deeper):
    data = decoders(distance, [[np.nan], [200.0], [200.0]])
    bounds = InductionBounds(0.0, 0.0, (0.6, 0.1), 1.2)
    claims = induction_claims.distance_claims(data, bounds)
    assert [claim.verdict for claim in claims] == [early, before, "holds", "holds"]
    assert induction_claims.deeper_claim(data).verdict == deeper
    published = [claim for claim in claims if claim.source]
    assert [claim.source for claim in published] == ["MT Figure 5", "MT Figure 5"]


def test_numbers_of_another_setting_are_those_of_small_decoders():
    whole, small = InductionExperiment(), InductionExperiment.quick()
    bounds = [
        induction_claims.bounds_of(one) for one in (whole, small, InductionExperiment.large())
    ]
    assert bounds[2] is induction_claims.LARGE
    assert bounds[0].rank_ratio > bounds[1].rank_ratio
    assert induction_claims.bounds_of(InductionExperiment(steps=10)) == bounds[1]
