"""How long plateaus last and where they lie, on staircases made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang import rank_runs
from saddlescope.figures.zhang.rank_runs import CONSPICUOUS, is_multiple, rank_claims

LEVELS = np.array([1.0, 0.7, 0.5, 0.4, 0.35])


def table(share, plateau_loss=None):
    """Ranks 1 and 2, one seed, four plateaus."""
    rows = np.array(share)[:, None]
    losses = np.tile(LEVELS, (2, 1, 1)) if plateau_loss is None else plateau_loss
    return xr.Dataset(
        {
            "plateau_share": (("rank", "seed", "plateau"), rows),
            "plateau_loss": (("rank", "seed", "level"), losses),
            "level_loss": ("level", LEVELS),
        },
        coords={"rank": [1, 2], "level": np.arange(5), "plateau": np.arange(4)},
    )


GOOD = [[0.9, 0.5, 0.4, 0.3], [0.9, 0.1, 0.5, 0.05]]


def test_plateaus_at_multiples_of_the_rank():
    multiple = is_multiple(table(GOOD), "plateau")
    assert multiple.tolist() == [[True] * 4, [True, False, True, False]]


def test_shares_of_the_time_at_the_end_of_each_plateau():
    drops = np.array([[[10.0, 40.0, np.nan]], [[10.0, 95.0, np.nan]]])
    shares = rank_runs._shares(drops, until=100.0)
    # The last one lasts 60 of 100 so far; the other only 5 of 100: nothing is known of it.
    np.testing.assert_allclose(shares[0, 0], [1.0, 0.75, 0.6])
    np.testing.assert_allclose(shares[1, 0], [1.0, 85 / 95, np.nan])


def test_the_loss_of_a_plateau_is_where_it_is_flattest():
    time = np.arange(9.0)
    loss = np.array([1.0, 1.0, 0.99, 0.5, 0.41, 0.4, 0.39, 0.2, 0.1])
    levels = rank_runs.plateau_levels(time, loss, np.array([2.5, 6.5, np.nan]))
    assert levels[0] == 1.0
    assert levels[1] == 0.4
    assert levels[2] == 0.1
    assert np.isnan(levels[3])


def test_levels_are_judged_at_multiples_and_at_the_end_in_steps():
    losses = np.tile(LEVELS, (2, 1, 1))
    losses[1, 0, 1] += 0.1  # rank 2 at m = 1: not judged
    losses[1, 0, 2] += 0.02  # at m = 2: a tenth of the step .2
    losses[0, 0, 4] += 0.005  # at the end: a tenth of the step .05
    np.testing.assert_allclose(rank_runs._level_errors(table(GOOD, losses)), [0.1, 0.1])


@pytest.mark.parametrize(
    ("share", "verdicts"),
    [
        (GOOD, ["holds", "holds", "holds", "holds"]),
        # Rank 2 rests at m = 1, and not at 2.
        ([GOOD[0], [0.9, 0.5, 0.1, 0.05]], ["fails", "fails", "fails", "holds"]),
        # Rank 1 hardly rests.
        ([[0.9, 0.1, 0.1, 0.1], GOOD[1]], ["fails", "fails", "holds", "holds"]),
    ],
)
def test_claims_about_ranks_can_fail(share, verdicts):
    assert [claim.verdict for claim in rank_claims(table(share))] == verdicts


def test_conspicuous_lies_in_the_gap_that_its_text_names():
    assert 0.14 < CONSPICUOUS < 0.3
