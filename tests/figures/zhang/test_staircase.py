"""The arithmetic of staircases, on curves and tables made by hand."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.zhang.staircase import (
    clearest_seed,
    learned_share,
    plateau_record,
    timing_claims,
    winning_heads,
)

TIME = np.arange(0.0, 100.0, 10.0)
DROPS = np.array([20.0, 60.0, np.nan])


@pytest.mark.parametrize(
    ("drop", "record"),
    # Half-way from 0 to 20, from 20 to 60; the plateau that the run does not see the end of.
    [(0, 1), (1, 4), (2, 9), (3, 9)],
)
def test_the_record_in_the_middle_of_a_plateau(drop, record):
    assert plateau_record(TIME, DROPS, drop) == record


def test_the_clearest_seed_has_most_drops_furthest_apart():
    drops = np.array([[1.0, 9.0, np.nan], [1.0, 2.0, 8.0], [1.0, 3.0, 9.0], [1.0, 1.1, 99.0]])
    assert clearest_seed(drops) == 2


def test_the_share_learned_is_one_at_the_optimum(bare_run):
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    amplitude = np.array([2.0, 1.0, 0.5])
    shares = np.array([[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]])
    maps = np.stack([(basis * (share * amplitude)) @ basis.T for share in shares])
    data = xr.Dataset({"effective_map": (("seed", "time", "dim", "query_dim"), maps[None])})
    learned = learned_share(bare_run(data), amplitude, basis)
    np.testing.assert_allclose(learned.values, shares[None], atol=1e-15)
    assert learned["direction"].values.tolist() == [0, 1, 2]


def test_the_head_that_wins_grows_most_in_size():
    value = np.zeros((1, 10, 3))
    value[0, 2:, 1] = -1.5  # at the first drop; its sign does not matter
    value[0, 6:, 0] = 2.0  # at the second
    value[0, :, 2] = 3.0  # large from the start, and grows at none
    data = xr.Dataset(
        {"value": (("seed", "time", "head"), value), "drop_time": (("seed", "drop"), DROPS[None])},
        coords={"time": TIME},
    )
    np.testing.assert_equal(winning_heads(data), [[1.0, 0.0, np.nan]])


def timed(drop_time, predicted, drift=1e-9):
    tables = {"drop_time": drop_time, "predicted_drop_time": predicted}
    data = xr.Dataset({name: (("seed", "drop"), np.array(rows)) for name, rows in tables.items()})
    data["conserved_drift"] = ("seed", np.full(len(drop_time), drift))
    return [claim.verdict for claim in timing_claims(data, 0.03)]


def test_times_are_judged_where_a_drop_came_and_the_others_are_counted():
    assert timed([[10.0, np.nan]], [[10.2, np.nan]]) == ["holds"] * 3
    assert timed([[10.0, np.nan]], [[10.5, np.nan]]) == ["fails", "holds", "holds"]
    assert timed([[10.0, np.nan]], [[10.0, 50.0]]) == ["holds", "fails", "holds"]
    assert timed([[10.0, 50.0]], [[10.0, np.nan]])[1] == "fails"
    assert timed([[10.0]], [[10.0]], drift=1e-6)[2] == "fails"
