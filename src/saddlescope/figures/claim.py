"""A claim about a figure: a number that was measured, what it should be, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Numbers = float | tuple[Any, ...] | None
HOLDS, FAILS = "holds", "fails"


@dataclass(frozen=True)
class Claim:
    """What is claimed, what was measured, and whether it holds.

    `relation` says how `measured` is judged: `within` `tolerance` of `predicted`, `relative` to it,
    `equal` to it, `at most` or `at least` it. `expected` is `holds`, or `fails` with the `reason`.
    """

    name: str
    relation: str
    measured: Numbers
    predicted: Numbers
    tolerance: float | None
    verdict: str
    expected: str = HOLDS
    reason: str = ""

    def expected_to_fail(self, reason: str) -> Claim:
        """The same claim, known not to hold, and why."""
        return replace(self, expected=FAILS, reason=reason)

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict == self.expected

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: null where a number is missing, never NaN."""
        return {
            "name": self.name,
            "relation": self.relation,
            "expected": self.expected,
            "verdict": self.verdict,
            "measured": _plain(self.measured),
            "predicted": _plain(self.predicted),
            "tolerance": self.tolerance,
            "reason": self.reason,
        }


def within(name: str, measured: Any, predicted: Any, tolerance: float) -> Claim:
    """Every number measured is within `tolerance` of the one predicted.

    >>> within("the last loss", .1361, .1360, 1e-3).verdict
    'holds'
    """
    return _near(name, "within", measured, predicted, tolerance, 1.0)


def relatively_within(name: str, measured: Any, predicted: Any, tolerance: float) -> Claim:
    """Every number measured is within `tolerance` of the one predicted, as a share of that.

    >>> relatively_within("drop times", [101., 210.], [100., 200.], .02).verdict
    'fails'
    """
    return _near(name, "relative", measured, predicted, tolerance, np.abs(_array(predicted)))


def at_most(name: str, measured: Any, bound: float) -> Claim:
    """No number measured is above the bound.

    >>> at_most("drift", 1e-10, 1e-8).verdict
    'holds'
    """
    return _judge(name, "at most", measured, bound, None, _array(measured) <= bound)


def at_least(name: str, measured: Any, bound: float) -> Claim:
    """No number measured is below the bound.

    >>> at_least("alignment", [.999, .2], .99).verdict
    'fails'
    """
    return _judge(name, "at least", measured, bound, None, _array(measured) >= bound)


def equal(name: str, measured: Any, predicted: Any) -> Claim:
    """What was counted or ordered is exactly what was predicted.

    >>> equal("the order of eigenvectors", [1, 2, 3], [1, 2, 3]).verdict
    'holds'
    """
    found, wanted = _array(measured), _array(predicted)
    same = found == wanted if found.shape == wanted.shape else np.array(False)
    return _judge(name, "equal", measured, predicted, None, same)


def _near(
    name: str, relation: str, measured: Any, predicted: Any, tolerance: float, unit: Any
) -> Claim:
    found, wanted = _array(measured), _array(predicted)
    if found.shape != wanted.shape and wanted.ndim:
        return _judge(name, relation, measured, predicted, tolerance, np.array(False))
    close = np.abs(found - wanted) <= tolerance * unit
    return _judge(name, relation, measured, predicted, tolerance, close)


def _judge(
    name: str, relation: str, measured: Any, predicted: Any, tolerance: float | None, holds: Any
) -> Claim:
    # A claim about nothing does not hold, nor does one about numbers that are missing.
    verdict = HOLDS if np.size(holds) and np.all(holds) else FAILS
    return Claim(name, relation, _numbers(measured), _numbers(predicted), tolerance, verdict)


def _array(values: Any) -> Any:
    return np.asarray(values, dtype=float)


def _numbers(values: Any) -> Numbers:
    array = _array(values)
    return float(array) if array.ndim == 0 else _nested(array.tolist())


def _nested(values: Any) -> Any:
    return tuple(_nested(value) for value in values) if isinstance(values, list) else values


def _plain(values: Numbers) -> Any:
    if isinstance(values, tuple):
        return [_plain(value) for value in values]
    return None if values is None or not np.isfinite(values) else values
