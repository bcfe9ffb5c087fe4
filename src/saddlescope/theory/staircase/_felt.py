"""What the heads of a race feel at one moment (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import FloatArray


@dataclass(frozen=True, eq=False)
class Felt:
    """Of every head how it moves, and what it has beside those that it feels."""

    velocity: Float[np.ndarray, "H n S"]
    falls: Float[np.ndarray, "H S"]
    """By how much each lowers the loss, given those that it feels."""
    size: Float[np.ndarray, "H S"]
    r"""$\lVert B^{1/2}P W_i P'\Lambda_q^{1/2}\rVert^2$: its own map, as the loss sees it."""
    value: Float[np.ndarray, "H S"]
    beside: Float[np.ndarray, "H 2 R D S"]
    """Its keys and queries without what the winners before it have."""

    @property
    def own(self) -> Float[np.ndarray, "H D D S"]:
        """$P W_i P'$."""
        own: FloatArray = np.einsum("hrds,hres->hdes", self.beside[:, 0], self.beside[:, 1])
        own *= self.value[:, None, None]
        return own

    @property
    def diagonal(self) -> Float[np.ndarray, "H D S"]:
        """That of each own map."""
        diagonal: FloatArray = np.einsum("hrds,hrds->hds", self.beside[:, 0], self.beside[:, 1])
        diagonal *= self.value[:, None]
        return diagonal

    def where(self, mask: Bool[np.ndarray, " S"], other: Felt) -> Felt:
        """This in the seeds of a mask, the other elsewhere."""
        if mask.all():
            return self
        return Felt(
            **{name: np.where(mask, own, getattr(other, name)) for name, own in vars(self).items()}
        )
