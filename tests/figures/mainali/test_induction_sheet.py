"""Falls, half-times and paces of decoders, on measures made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.mainali import induction_sheet

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


def test_half_times_are_when_a_curve_stays_below_half():
    early = np.where(STEP < 200, 1.0, 0.1)
    relapse = np.where((STEP < 200) | (np.abs(STEP - 700) < 5), 1.0, 0.1)
    assert induction_sheet._half_time(curve(early)) == pytest.approx(0.19)
    assert induction_sheet._half_time(curve(relapse)) == pytest.approx(0.70)


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
    assert induction_sheet.emergence_claim(data).verdict == verdict
    assert induction_sheet.head_claim(data).verdict == verdict


def test_the_rank_is_judged_against_one_layer_where_there_is_one():
    data = xr.Dataset(
        {
            "qk_fall": (("layers", "seed"), [[1.0, 1.0], [3.0, 2.0]]),
            "qk_return": (("layers", "seed"), [[np.nan, np.nan], [0.1, 0.2]]),
        },
        coords={"layers": [1, 2]},
    )
    assert [claim.verdict for claim in induction_sheet.rank_claims(data)] == ["holds", "fails"]
    assert len(induction_sheet.rank_claims(data.sel(layers=[2]))) == 1
    shallow = data.assign(qk_fall=(("layers", "seed"), [[4.0, 4.0], [3.0, 2.0]]))
    assert induction_sheet.rank_claims(shallow)[0].verdict == "fails"
