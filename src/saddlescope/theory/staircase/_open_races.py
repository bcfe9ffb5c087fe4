"""Which drops hang on a race that was nearly lost."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

# In times 1/(c ξ^{1/3}) that a head takes to rise: a margin below the first is close, and a drop
# within the second of the start can be far off, relative to its time, where its race was close.
# Measured against training (D = 3 and 4, ranks 1 and 2, 760 starts with w = .1 or .3): of 2 767
# drops 28 are off by more than a tenth, and all of these are among the 1 370 that are marked; of
# the others 11 are off by more than a hundredth. With w = .01 5 of 925 are marked.
_CLOSE, _EARLY = 6.0, 300.0


def open_races(
    time: Float[np.ndarray, "*S M"],
    margin: Float[np.ndarray, "*S M"],
    rise_time: Float[np.ndarray, "*#S M"],
) -> Bool[np.ndarray, "*S M"]:
    """Drops whose race, or an earlier one of the same seed, was close; the criterion is ours.

    A head that loses narrowly has grown before it stops, and what it has grown is not small.
    """
    comes, unit = np.isfinite(time), np.broadcast_to(rise_time, time.shape)
    share = np.divide(margin, unit, out=np.full(time.shape, np.inf), where=comes)
    closest = np.minimum.accumulate(share, axis=-1)
    return comes & (closest < _CLOSE) & (time < _EARLY * unit)
