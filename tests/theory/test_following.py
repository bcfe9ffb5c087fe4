"""Flows that have no closed form."""

import numpy as np
import pytest

from saddlescope.errors import TheoryDoesNotApply
from saddlescope.theory._following import follow


def test_a_flow_is_followed_to_its_times() -> None:
    at = np.linspace(0.0, 5.0, 11)
    followed = follow("a decay", lambda y: -y, np.array([1.0, 3.0]), 5.0, at=at)
    np.testing.assert_allclose(followed.states, [np.exp(-at), 3 * np.exp(-at)], rtol=1e-8)
    assert followed.event is None


def test_a_flow_ends_where_it_should() -> None:
    followed = follow(
        "a decay", lambda y: -y, np.array([1.0]), 50.0, until=lambda y: float(y[0] - 0.5)
    )
    assert followed.event == pytest.approx(np.log(2), rel=1e-8)


def test_one_that_runs_away_is_said_to() -> None:
    # 1/(1 − t) ends at t = 1.
    with pytest.raises(TheoryDoesNotApply, match="a blow-up cannot be followed beyond time"):
        follow("a blow-up", lambda y: y**2, np.array([1.0]), 2.0)
