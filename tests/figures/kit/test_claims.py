"""The claims of a figure together: a sequence, a table, a data frame, a data set."""

import numpy as np
import pytest

from saddlescope.figures.kit.claim import at_least, at_most, equal, relatively_within, within
from saddlescope.figures.kit.claims import Claims

CLAIMS = Claims(
    (
        within("levels", [1.0, 0.52], [1.0, 0.5], 0.05),
        relatively_within("times", [101.0, 1.9], [100.0, 2.0], 0.01).expected_to_fail("early"),
        at_most("drift", [1e-9, 3e-9], 1e-8),
        at_least("alignment", [0.9, 0.95], 0.99),
        equal("order", [1, 3, 2], [1, 2, 3]),
        equal("count", [1, 2], [1, 2, 3]),
        within("nothing", [], [], 1.0),
    )
)


def test_it_is_a_sequence() -> None:
    assert len(CLAIMS) == 7
    assert CLAIMS[0].name == "levels"
    assert [claim.name for claim in CLAIMS[-2:]] == ["count", "nothing"]
    assert isinstance(CLAIMS[1:3], Claims)
    assert CLAIMS[2] in CLAIMS
    assert list(CLAIMS) == list(CLAIMS.claims)


def test_what_is_unexpected_is_named() -> None:
    assert [claim.name for claim in CLAIMS.unexpected] == ["alignment", "order", "count", "nothing"]
    assert not CLAIMS.as_expected
    assert CLAIMS[:3].as_expected
    assert Claims().as_expected
    assert repr(CLAIMS) == "Claims(7: 3 as expected, 4 not)"
    assert repr(CLAIMS[:3]) == "Claims(3: 3 as expected)"


def test_the_frame_has_a_row_a_claim() -> None:
    frame = CLAIMS.to_dataframe()
    assert frame["name"].tolist() == [claim.name for claim in CLAIMS]
    assert frame["verdict"].tolist() == [claim.verdict for claim in CLAIMS]
    assert frame.loc[1, "measured"] == [101.0, 1.9]
    assert frame.loc[1, "reason"] == "early"
    assert frame.loc[0, "summary"] == "largest error 0.02, allowed 0.05"
    empty = Claims().to_dataframe()
    assert len(empty) == 0
    assert list(empty.columns) == list(frame.columns)


@pytest.mark.parametrize(
    ("name", "measured", "predicted", "count"),
    [
        ("levels", 0.52, 0.5, 2),
        # 5 % of 2, not 1 % of 100.
        ("times", 1.9, 2.0, 2),
        ("drift", 3e-9, 1e-8, 2),
        ("alignment", 0.9, 0.99, 2),
        ("order", 3.0, 2.0, 3),
        ("count", np.nan, np.nan, 2),
        ("nothing", np.nan, np.nan, 0),
    ],
)
def test_the_data_set_has_the_worst_number(name, measured, predicted, count) -> None:
    one = CLAIMS.to_dataset().sel(claim=name)
    np.testing.assert_equal(
        [one["measured"].item(), one["predicted"].item()], [measured, predicted]
    )
    assert one["count"] == count


def test_the_data_set_has_verdicts() -> None:
    data = CLAIMS.to_dataset()
    assert data["verdict"].values.tolist() == [claim.verdict for claim in CLAIMS]
    assert data["as_expected"].sum() == 3
    np.testing.assert_equal(data["tolerance"].values[:3], [0.05, 0.01, np.nan])
    assert Claims().to_dataset().sizes["claim"] == 0


def test_tables_have_a_line_a_claim() -> None:
    lines = str(CLAIMS).splitlines()
    assert len(lines) == 3 + len(CLAIMS)
    assert lines[0] == "Our own criteria"
    assert lines[1].split() == ["verdict", "expected", "claim", "numbers"]
    assert lines[3].startswith("holds")
    html = CLAIMS._repr_html_()
    assert html.count("<tr>") == 1 + len(CLAIMS)
    assert "not judged" in html


def test_what_was_published_and_what_is_ours_stand_in_tables_of_their_own() -> None:
    published = CLAIMS[2].stated_in("Z 17")
    both = Claims((CLAIMS[0], published))
    assert list(both.tables) == ["As published", "Our own criteria"]
    assert list(both.published) == [published]
    assert list(both.ours) == [CLAIMS[0]]
    above, below = str(both).split("\n\n")
    assert "Z 17: drift" in above
    assert "levels" in below
    assert both._repr_html_().count("<table") == 2
    assert both.to_dataset()["source"].values.tolist() == ["", "Z 17"]
    assert Claims().tables == {}
