"""The authors' own start, and how drop times spread, on numbers made by hand."""

import numpy as np
import pytest

from saddlescope.figures.zhang.fig7 import _spread_claims
from saddlescope.figures.zhang.published_settings import PublishedSettings, authors_weights


def test_the_authors_start_has_the_deviation_of_the_whole_weight():
    """Scale .01 over the root of the 125 entries of the values and of the 25 of keys, queries."""
    many = PublishedSettings().setting.replace(seeds=2000)
    weights = authors_weights(many)
    assert {name: array.shape[0] for name, array in weights.items()} == dict.fromkeys(weights, 2000)
    deviations = {name: array.std() for name, array in weights.items()}
    expected = {name: 0.01 / np.sqrt(125 if name in ("v", "nu") else 25) for name in weights}
    # 10 000 entries of the smallest weight are known to .7 %.
    for name, deviation in deviations.items():
        assert deviation == pytest.approx(expected[name], rel=0.03)
    again = authors_weights(many.replace(seeds=(5, 7)))
    np.testing.assert_array_equal(again["k"][1], weights["k"][7])


def drops(waits):
    """Starts whose plateaus last so long, or a tenth longer or shorter."""
    return np.cumsum(np.multiply.outer([0.9, 1.0, 1.1, 1.2], waits), axis=1)


@pytest.mark.parametrize(
    ("waits", "verdicts"),
    [
        # The spread grows; later plateaus are longer in none, since the second is shorter.
        ([10.0, 5.0, 20.0, 100.0], ["holds", "fails", "holds", "holds"]),
        # Every plateau outlasts the one before.
        ([10.0, 20.0, 50.0, 200.0], ["holds", "holds", "holds", "fails"]),
        # The last two hardly add to the spread.
        ([100.0, 50.0, 5.0, 1.0], ["fails", "fails", "fails", "holds"]),
    ],
)
def test_what_is_said_of_plateaus_can_hold_and_fail(waits, verdicts):
    assert [claim.verdict for claim in _spread_claims(drops(waits))] == verdicts


def test_drops_that_have_not_come_count_as_late():
    rows = drops([10.0, 5.0, 20.0, 100.0])
    rows[2:, 3] = np.nan
    spread, longer, *_ = _spread_claims(rows)
    assert spread.verdict == "holds"
    assert np.size(spread.measured) == 2
    assert longer.predicted == 2
