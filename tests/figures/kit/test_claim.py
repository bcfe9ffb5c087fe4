"""The judge: every relation can hold and can fail, and missing numbers never hold."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from saddlescope.figures.kit.claim import (
    Claim,
    Relation,
    Verdict,
    at_least,
    at_most,
    equal,
    relatively_within,
    within,
)

HOLDING: dict[str, Callable[[], Claim]] = {
    "within": lambda: within("a", [1.0, 2.0], [1.001, 1.999], 2e-3),
    "relative": lambda: relatively_within("a", [100.0, 2.0], [101.0, 2.01], 0.02),
    "at most": lambda: at_most("a", [0.1, 0.2], 0.2),
    "at least": lambda: at_least("a", 0.3, 0.2),
    "equal": lambda: equal("a", [1, 2], [1, 2]),
}
FAILING: dict[str, Callable[[], Claim]] = {
    "within": lambda: within("a", [1.0, 2.0], [1.0, 2.1], 2e-3),
    "relative": lambda: relatively_within("a", [100.0, 2.0], [100.0, 1.9], 0.02),
    "at most": lambda: at_most("a", [0.1, 0.21], 0.2),
    "at least": lambda: at_least("a", [0.1, 0.3], 0.2),
    "equal": lambda: equal("a", [1, 2, 3], [1, 2]),
}


@pytest.mark.parametrize("relation", HOLDING)
def test_claims_hold_and_fail(relation: str) -> None:
    good, bad = HOLDING[relation](), FAILING[relation]()
    assert (good.relation, good.verdict, bad.verdict) == (relation, "holds", "fails")
    assert good.as_expected
    assert not bad.as_expected
    assert bad.expected_to_fail("known").as_expected
    assert not good.expected_to_fail("known").as_expected


@pytest.mark.parametrize(
    "claim",
    [
        within("a", [1.0, np.nan], [1.0, 1.0], 1.0),
        relatively_within("a", np.nan, 1.0, 1.0),
        at_most("a", np.nan, 1.0),
        at_least("a", [np.nan, 2.0], 1.0),
        equal("a", [np.nan], [np.nan]),
    ],
    ids=lambda claim: claim.relation,
)
def test_a_missing_number_is_not_judged(claim: Claim) -> None:
    assert claim.verdict == "not judged"
    assert not claim.as_expected
    assert not claim.expected_to_fail("for another reason").as_expected
    assert "NaN" not in json.dumps(claim.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "claim", [within("a", [], [], 1.0), at_most("a", [], 1.0), equal("a", [], [])]
)
def test_a_claim_about_nothing_is_not_judged(claim: Claim) -> None:
    assert claim.verdict == "not judged"
    assert not claim.expected_to_fail("for another reason").as_expected


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (at_least("a", [0.2, 0.5], 0.2), "holds"),
        (at_least("a", np.nextafter(0.2, 0), 0.2), "fails"),
        (at_most("a", [0.2, -1.0], 0.2), "holds"),
        (at_most("a", np.nextafter(0.2, 1), 0.2), "fails"),
        (within("a", [1.25, 0.75], 1.0, 0.25), "holds"),
        (within("a", np.nextafter(1.25, 2), 1.0, 0.25), "fails"),
        (relatively_within("a", [5.0, 3.0], 4.0, 0.25), "holds"),
        (relatively_within("a", np.nextafter(5.0, 6), 4.0, 0.25), "fails"),
        (relatively_within("a", -5.0, -4.0, 0.25), "holds"),
    ],
    ids=lambda value: str(getattr(value, "relation", value)),
)
def test_bounds_and_tolerances_are_allowed_themselves(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict


def test_one_number_stands_for_all_predicted() -> None:
    assert within("a", [0.99, 1.01], 1.0, 0.02).verdict == "holds"
    assert within("a", [0.99, 1.01], [1.0, 1.0, 1.0], 0.02).verdict == "fails"


def test_the_dictionary_has_the_documented_keys() -> None:
    values = within("a", 1.0, 1.1, 0.2).expected_to_fail("because").to_dict()
    assert values == {
        "name": "a",
        "relation": "within",
        "expected": "fails",
        "verdict": "holds",
        "measured": 1.0,
        "predicted": 1.1,
        "tolerance": 0.2,
        "reason": "because",
        "source": "",
        "counting": "as predicted",
    }
    assert {type(values[name]) for name in ("relation", "expected", "verdict")} == {str}


def test_relations_and_verdicts_are_closed_sets() -> None:
    assert {one.value for one in Relation} == set(HOLDING)
    assert [one.value for one in Verdict] == ["holds", "fails", "not judged"]


def test_a_claim_shows_its_verdict_and_its_numbers() -> None:
    claim = at_most("a < b", [1.0, 3.0], 2.0)
    assert repr(claim) == "Claim('a < b' fails unexpectedly: largest 3, at most 2)"
    assert str(claim) == "FAILS, UNEXPECTED: a < b [largest 3, at most 2]"
    known = claim.expected_to_fail("x > y")
    assert str(known) == "fails: a < b [largest 3, at most 2]\n  expected to fail: x > y"
    html = known._repr_html_()
    assert "<b>fails</b>: a &lt; b" in html
    assert "x &gt; y" in html


def test_a_bound_near_one_is_not_rounded_across_its_number() -> None:
    assert at_least("a", [0.99984, 0.99991], 1 - 5e-4).summary == "least 0.99984, at least 0.9995"
    assert at_most("a", 1.0000004, 1.0000005).summary == "1.0000004, at most 1.0000005"
    assert at_most("a", 0.2, 0.2).summary == "0.2, at most 0.2"
