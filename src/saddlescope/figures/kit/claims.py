"""All claims about a figure, in order: as a table, a data frame or a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from saddlescope.figures.kit.claim import Claim, Relation, Verdict
from saddlescope.tables import html_table, text_table

PUBLISHED, OURS = "As published", "Our own criteria"
"""The headings of the two tables that claims stand in."""

_HEADINGS = ("verdict", "expected", "claim", "numbers")


@dataclass(frozen=True, repr=False)
class Claims(Sequence[Claim]):
    """An immutable sequence of claims; prints as two tables, published claims and our own.

    >>> from saddlescope.figures.kit.claim import at_most, equal
    >>> claims = Claims((at_most("drift", 1e-10, 1e-8), equal("drops", 4, 3).stated_in("Z 4.2")))
    >>> claims
    Claims(2: 1 as expected, 1 not)
    >>> [claim.name for claim in claims.published], [claim.name for claim in claims.ours]
    (['drops'], ['drift'])
    """

    claims: tuple[Claim, ...] = ()

    @property
    def as_expected(self) -> bool:
        """Whether every claim has its expected verdict."""
        return not self.unexpected

    @property
    def unexpected(self) -> Claims:
        """The claims with an unexpected verdict."""
        return Claims(tuple(claim for claim in self.claims if not claim.as_expected))

    @property
    def published(self) -> Claims:
        """The claims that a paper states."""
        return Claims(tuple(claim for claim in self.claims if claim.source))

    @property
    def ours(self) -> Claims:
        """The claims that no paper states: our own criteria."""
        return Claims(tuple(claim for claim in self.claims if not claim.source))

    @property
    def tables(self) -> dict[str, Claims]:
        """The claims by the heading of their table; no table is empty."""
        parts = {PUBLISHED: self.published, OURS: self.ours}
        return {heading: claims for heading, claims in parts.items() if claims}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per claim; `measured` and `predicted` hold all of its numbers."""
        rows = [
            {**claim.to_dict(), "as_expected": claim.as_expected, "summary": claim.summary}
            for claim in self.claims
        ]
        return pd.DataFrame(rows, columns=[*Claim.__dataclass_fields__, "as_expected", "summary"])

    def to_dataset(self) -> xr.Dataset:
        """Over `claim`, labelled by the names of the claims.

        For each claim: the `count` of its numbers, and the `measured` number farthest from its
        prediction with the `predicted` one; both NaN if nothing was measured, or the numbers of
        measured and predicted ones differ.
        """
        worst = [_worst(claim) for claim in self.claims]
        columns: dict[str, ArrayLike] = {
            "relation": [claim.relation.value for claim in self.claims],
            "verdict": [claim.verdict.value for claim in self.claims],
            "expected": [claim.expected.value for claim in self.claims],
            "source": [claim.source for claim in self.claims],
            "as_expected": np.array([claim.as_expected for claim in self.claims], dtype=bool),
            "count": np.array([np.asarray(one.measured).size for one in self.claims], dtype=int),
            "measured": np.array([measured for measured, _ in worst], dtype=float),
            "predicted": np.array([predicted for _, predicted in worst], dtype=float),
            "tolerance": np.array([claim.tolerance for claim in self.claims], dtype=float),
        }
        return xr.Dataset(
            {name: ("claim", values) for name, values in columns.items()},
            {"claim": [claim.name for claim in self.claims]},
        )

    @overload
    def __getitem__(self, index: int) -> Claim: ...
    @overload
    def __getitem__(self, index: slice) -> Claims: ...
    def __getitem__(self, index: int | slice) -> Claim | Claims:
        chosen = self.claims[index]
        return Claims(chosen) if isinstance(chosen, tuple) else chosen

    def __len__(self) -> int:
        return len(self.claims)

    def __repr__(self) -> str:
        wrong = len(self.unexpected)
        others = f", {wrong} not" if wrong else ""
        return f"Claims({len(self)}: {len(self) - wrong} as expected{others})"

    def __str__(self) -> str:
        return "\n\n".join(
            f"{heading}\n{text_table(_HEADINGS, part._cells(), left=4)}"
            for heading, part in self.tables.items()
        )

    def _repr_html_(self) -> str:
        return "".join(
            f"<p>{heading}</p>{html_table(_HEADINGS, part._cells())}"
            for heading, part in self.tables.items()
        )

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (claim.verdict.value, claim.expected.value, claim.statement, claim.summary)
            for claim in self.claims
        ]


def _worst(claim: Claim) -> tuple[float, float]:
    """The measured number farthest from its prediction, and the prediction."""
    measured = np.ravel(np.asarray(claim.measured, dtype=np.float64))
    predicted = np.ravel(np.asarray(claim.predicted, dtype=np.float64))
    if claim.verdict is Verdict.NOT_JUDGED or predicted.size not in (1, measured.size):
        return np.nan, np.nan
    targets = np.broadcast_to(predicted, measured.shape)
    above = measured - targets
    signed = {Relation.AT_MOST: above, Relation.AT_LEAST: -above}
    distance = signed.get(claim.relation, np.abs(above))
    if claim.relation is Relation.RELATIVE:
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.nan_to_num(distance / np.abs(targets))
    worst = int(np.argmax(distance))
    return float(measured[worst]), float(targets[worst])
