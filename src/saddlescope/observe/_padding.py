"""Arrays of different sizes as one, padded with NaN."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from saddlescope.checks import AnyArray


def stacked(parts: Mapping[int, AnyArray], count: int) -> AnyArray:
    """`count` arrays along a new first axis, by index; NaN where one is smaller or missing.

    >>> stacked({0: np.ones(1), 2: np.ones(2)}, 3).tolist()
    [[1.0, nan], [nan, nan], [1.0, 1.0]]
    """
    sizes = zip(*(part.shape for part in parts.values()), strict=True)
    whole = np.full((count, *map(max, sizes)), np.nan, np.result_type(*parts.values()))
    for index, part in parts.items():
        # A slice of one, since a number that is picked out cannot be written to.
        whole[index : index + 1][(slice(None), *map(slice, part.shape))] = part
    return whole
