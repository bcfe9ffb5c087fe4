"""A claim about a figure: a number that was measured, what it should be, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Numbers = float | tuple[Any, ...] | None
HOLDS, FAILS, NOT_JUDGED = "holds", "fails", "not judged"


@dataclass(frozen=True)
class Claim:
    """What is claimed, what was measured, and whether it holds.

    `relation` says how `measured` is judged: `within` `tolerance` of `predicted`, `relative` to it,
    `equal` to it, `at most` or `at least` it. `expected` is `holds`, or `fails` with the `reason`.
    The verdict on nothing, or on missing numbers, is `not judged`, which nobody expects.
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

    @property
    def summary(self) -> str:
        """The numbers in a few words: of many, the one farthest from what was predicted.

        >>> within("losses", [1.0, 0.52], [1.0, 0.5], 0.05).summary
        'largest error 0.02, allowed 0.05'
        >>> equal("order", [1, 3, 2], [1, 2, 3]).summary
        '1 3 2 ≠ 1 2 3'
        """
        return _summary(self)

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
    if not np.size(measured) or np.isnan(_array(measured)).any():
        verdict = NOT_JUDGED
    else:
        verdict = HOLDS if np.all(holds) else FAILS
    return Claim(name, relation, _numbers(measured), _numbers(predicted), tolerance, verdict)


def _summary(claim: Claim) -> str:
    measured, predicted = (
        np.atleast_1d(_array(np.nan if numbers is None else numbers))
        for numbers in (claim.measured, claim.predicted)
    )
    if not measured.size:
        return "nothing was measured"
    if measured.shape != predicted.shape and predicted.size > 1:
        return f"{measured.size} numbers, {predicted.size} predicted"
    measured, predicted = measured.ravel(), predicted.ravel()
    if claim.relation == "equal":
        return _counted(measured, predicted)
    if not np.isfinite(measured).all():
        return f"{np.count_nonzero(~np.isfinite(measured))} of {measured.size} numbers missing"
    one = measured.size == 1
    if claim.relation in ("at most", "at least"):
        worst, word = (
            (measured.max(), "largest")
            if claim.relation == "at most"
            else (measured.min(), "least")
        )
        found = f"{worst:.4g}" if one else f"{word} {worst:.4g}"
        return f"{found}, {claim.relation} {predicted[0]:.3g}"
    error = np.abs(measured - predicted)
    if claim.relation == "relative":
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.max(error / np.abs(predicted))
        size, allowed = f"{100 * share:.3g}%", f"{100 * (claim.tolerance or 0):.3g}%"
    else:
        size, allowed = f"{error.max():.3g}", f"{claim.tolerance:.3g}"
    if one:
        numbers = f"{measured[0]:.4g}, predicted {predicted[0]:.4g}"
        return f"{numbers}: error {size}, allowed {allowed}"
    return f"largest error {size}, allowed {allowed}"


# More numbers than these are counted, not shown.
_SHOWN = 8


def _counted(measured: Any, predicted: Any) -> str:
    if measured.size > _SHOWN:
        return f"{np.count_nonzero(measured == predicted)} of {measured.size} equal"
    found, wanted = (" ".join(f"{x:.6g}" for x in numbers) for numbers in (measured, predicted))
    return f"{found} {'=' if np.array_equal(measured, predicted) else '≠'} {wanted}"


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
