"""A claim about a figure: a measured number, what it should be, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from html import escape

import numpy as np
from numpy.typing import ArrayLike
from xarray import DataArray

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.setting.plain import Plain

Values = ArrayLike | Sequence[object] | DataArray
"""The numbers that are judged, of any shape."""
Numbers = float | tuple[object, ...]
"""The same as plain values, nested as their shape is."""


class Relation(StrEnum):
    """How a measured number is compared with the predicted one."""

    WITHIN = "within"
    """Within the tolerance, as an absolute difference."""
    RELATIVE = "relative"
    """Within the tolerance, as a share of the predicted number."""
    EQUAL = "equal"
    AT_MOST = "at most"
    AT_LEAST = "at least"


class Verdict(StrEnum):
    """The outcome; without numbers, or with some missing, a claim is not judged."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, repr=False)
class Claim:
    """What is claimed, what was measured, and whether it holds.

    `expected` is `holds`, or `fails` with the `reason`. `source` says where it was published; a
    claim without one is our own criterion.

    >>> at_most("drift", 1e-10, 1e-8)
    Claim('drift' holds: 1e-10, at most 1e-08)
    """

    name: str
    relation: Relation
    measured: Numbers
    predicted: Numbers
    tolerance: float | None
    verdict: Verdict
    expected: Verdict = Verdict.HOLDS
    reason: str = ""
    source: str = ""
    counting: str = "as predicted"
    """What the numbers that equal their prediction are called when they are counted."""

    def stated_in(self, source: str) -> Claim:
        """The same claim, quoted from a publication.

        >>> print(equal("the loss drops once", 1, 1).stated_in("Z section 3.3"))
        holds: Z section 3.3: the loss drops once [1, as predicted]
        """
        return replace(self, source=source)

    def expected_to_fail(self, reason: str) -> Claim:
        """The same claim, known not to hold for this reason."""
        return replace(self, expected=Verdict.FAILS, reason=reason)

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict == self.expected

    @property
    def statement(self) -> str:
        """The claim, preceded by its source."""
        return f"{self.source}: {self.name}" if self.source else self.name

    @property
    def summary(self) -> str:
        """The numbers in a few words: of many, the one farthest from its prediction.

        >>> within("losses", [1.0, 0.52], [1.0, 0.5], 0.05).summary
        'largest error 0.02, allowed 0.05'
        >>> equal("order", [1, 3, 2], [1, 2, 3], "drops in order").summary
        '1 of 3 drops in order: 1 3 2, predicted 1 2 3'
        """
        measured, predicted = (
            np.atleast_1d(_array(numbers)) for numbers in (self.measured, self.predicted)
        )
        if not measured.size:
            return "nothing was measured"
        if measured.shape != predicted.shape and predicted.size > 1:
            return f"{measured.size} numbers, {predicted.size} predicted"
        measured, predicted = measured.ravel(), predicted.ravel()
        if self.relation is Relation.EQUAL:
            return _counted(measured, predicted, self.counting)
        if not np.isfinite(measured).all():
            return f"{np.count_nonzero(~np.isfinite(measured))} of {measured.size} numbers missing"
        one = measured.size == 1
        if self.relation in (Relation.AT_MOST, Relation.AT_LEAST):
            most = self.relation is Relation.AT_MOST
            worst, word = (measured.max(), "largest") if most else (measured.min(), "least")
            number, bound = _told_apart(float(worst), float(predicted[0]))
            return f"{number if one else f'{word} {number}'}, {self.relation} {bound}"
        error = np.abs(measured - predicted)
        if self.relation is Relation.RELATIVE:
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.max(error / np.abs(predicted))
            size, allowed = f"{100 * share:.3g}%", f"{100 * (self.tolerance or 0):.3g}%"
        else:
            size, allowed = f"{error.max():.3g}", f"{self.tolerance:.3g}"
        if one:
            both = f"{measured[0]:.4g}, predicted {predicted[0]:.4g}"
            return f"{both}: error {size}, allowed {allowed}"
        return f"largest error {size}, allowed {allowed}"

    def to_dict(self) -> dict[str, Plain]:
        """Plain values for JSON: null where a number is missing, never NaN."""
        return {
            "name": self.name,
            "relation": self.relation.value,
            "expected": self.expected.value,
            "verdict": self.verdict.value,
            "measured": _plain(self.measured),
            "predicted": _plain(self.predicted),
            "tolerance": self.tolerance,
            "reason": self.reason,
            "source": self.source,
            "counting": self.counting,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Plain]) -> Claim:
        """The claim that `to_dict` wrote, with NaN where a number is missing.

        >>> Claim.from_dict(at_most("drift", [1e-10, float("nan")], 1e-8).to_dict())
        Claim('drift' not judged unexpectedly: 1 of 2 numbers missing)
        """
        tolerance = values["tolerance"]
        return cls(
            str(values["name"]),
            Relation(str(values["relation"])),
            _from_plain(values["measured"]),
            _from_plain(values["predicted"]),
            None if tolerance is None else float(str(tolerance)),
            Verdict(str(values["verdict"])),
            Verdict(str(values["expected"])),
            str(values["reason"]),
            str(values["source"]),
            str(values["counting"]),
        )

    def __repr__(self) -> str:
        return f"Claim({self.name!r} {self._outcome}: {self.summary})"

    def __str__(self) -> str:
        """The verdict, the claim and its numbers; on a second line why it is expected to fail."""
        mark = self.verdict if self.as_expected else f"{self.verdict.upper()}, UNEXPECTED"
        line = f"{mark}: {self.statement} [{self.summary}]"
        return f"{line}\n  expected to fail: {self.reason}" if self.reason else line

    def _repr_html_(self) -> str:
        why = f"<br>expected to fail: {escape(self.reason)}" if self.reason else ""
        words = f"<b>{self._outcome}</b>: {escape(self.statement)} [{escape(self.summary)}]"
        return f"<p>{words}{why}</p>"

    @property
    def _outcome(self) -> str:
        return self.verdict if self.as_expected else f"{self.verdict} unexpectedly"


def within(name: str, measured: Values, predicted: Values, tolerance: float) -> Claim:
    """Each measured number is within `tolerance` of the predicted one.

    >>> within("the last loss", .1361, .1360, 1e-3)
    Claim('the last loss' holds: 0.1361, predicted 0.136: error 0.0001, allowed 0.001)
    """
    return _near(name, Relation.WITHIN, measured, predicted, tolerance, 1.0)


def relatively_within(name: str, measured: Values, predicted: Values, tolerance: float) -> Claim:
    """Each measured number is within `tolerance` of the predicted one, as a share of the latter.

    >>> relatively_within("drop times", [101., 210.], [100., 200.], .02)
    Claim('drop times' fails unexpectedly: largest error 5%, allowed 2%)
    """
    unit = np.abs(_array(predicted))
    return _near(name, Relation.RELATIVE, measured, predicted, tolerance, unit)


def at_most(name: str, measured: Values, bound: float) -> Claim:
    """No measured number is above the bound.

    >>> at_most("drift", [1e-10, 2e-8], 1e-8)
    Claim('drift' fails unexpectedly: largest 2e-08, at most 1e-08)
    """
    return _judge(name, Relation.AT_MOST, measured, bound, None, _array(measured) <= bound)


def at_least(name: str, measured: Values, bound: float) -> Claim:
    """No measured number is below the bound.

    >>> at_least("alignment", [.999, .2], .99)
    Claim('alignment' fails unexpectedly: least 0.2, at least 0.99)
    """
    return _judge(name, Relation.AT_LEAST, measured, bound, None, _array(measured) >= bound)


def equal(name: str, measured: Values, predicted: Values, counting: str = "as predicted") -> Claim:
    """A count or an order is exactly the predicted one.

    `counting` names the numbers that agree, where there are several.

    >>> equal("the order of eigenvectors", [1, 2, 3], [1, 2, 3], "drops in order")
    Claim('the order of eigenvectors' holds: 3 of 3 drops in order)
    """
    same = np.array_equal(_array(measured), _array(predicted))
    claim = _judge(name, Relation.EQUAL, measured, predicted, None, same)
    return replace(claim, counting=counting)


def _near(
    name: str,
    relation: Relation,
    measured: Values,
    predicted: Values,
    tolerance: float,
    unit: FloatArray | float,
) -> Claim:
    numbers, targets = _array(measured), _array(predicted)
    close: AnyArray | bool = False
    if numbers.shape == targets.shape or not targets.ndim:
        close = np.abs(numbers - targets) <= tolerance * unit
    return _judge(name, relation, measured, predicted, tolerance, close)


def _judge(
    name: str,
    relation: Relation,
    measured: Values,
    predicted: Values,
    tolerance: float | None,
    holds: AnyArray | np.bool_ | bool,
) -> Claim:
    numbers = _array(measured)
    if not numbers.size or np.isnan(numbers).any():
        verdict = Verdict.NOT_JUDGED
    else:
        verdict = Verdict.HOLDS if np.all(holds) else Verdict.FAILS
    return Claim(name, relation, _numbers(measured), _numbers(predicted), tolerance, verdict)


def _told_apart(number: float, bound: float) -> tuple[str, str]:
    """Both as text, with digits enough to see on which side of the bound the number is.

    >>> _told_apart(0.99984, 1 - 5e-4), _told_apart(2.189, 2.0)
    (('0.99984', '0.9995'), ('2.189', '2'))
    """
    gap = abs(number - bound)
    digits = next((n for n in range(3, 16) if abs(float(f"{bound:.{n}g}") - bound) <= gap / 10), 16)
    return f"{number:.{max(4, digits + 1)}g}", f"{bound:.{digits}g}"


# More numbers than these are counted, not shown.
_SHOWN = 8


def _counted(measured: FloatArray, predicted: FloatArray, counting: str) -> str:
    same = np.count_nonzero(measured == predicted)
    left, right = (" ".join(f"{x:.6g}" for x in numbers) for numbers in (measured, predicted))
    if measured.size == 1:
        return f"{left}, as predicted" if same else f"{left}, predicted {right}"
    words = f"{same} of {measured.size} {counting}"
    shown = same < measured.size <= _SHOWN
    return f"{words}: {left}, predicted {right}" if shown else words


def _array(values: Values) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _numbers(values: Values) -> Numbers:
    array = _array(values)
    return tuple(_numbers(row) for row in array) if array.ndim else float(array)


def _plain(values: object) -> Plain:
    if isinstance(values, tuple):
        return [_plain(value) for value in values]
    return values if isinstance(values, float) and np.isfinite(values) else None


def _from_plain(value: Plain) -> Numbers:
    if isinstance(value, list):
        return tuple(_from_plain(part) for part in value)
    return float("nan") if value is None else float(str(value))
