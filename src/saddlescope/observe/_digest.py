"""A hash of the measured weights, by which identical checkpoints are recognised."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from saddlescope.observe import adapters
from saddlescope.observe.adapters import AbstractAdapter
from saddlescope.observe.weights import AbstractWeights

if TYPE_CHECKING:
    from torch import Tensor


def digest_of(weights: AbstractWeights, adapter: AbstractAdapter | str | None) -> str:
    """A hash of everything that is measured: the weights of attention layers and their norms."""
    noting = _Noting(weights)
    family, layers = adapters.find(noting, adapter)
    for layer in layers:
        family.read(noting, layer)
    return hashlib.sha256(repr(sorted(noting.hashes.items())).encode()).hexdigest()


class _Noting(AbstractWeights):
    """Weights that note which of them were read, with a hash of each."""

    def __init__(self, weights: AbstractWeights) -> None:
        self._weights = weights
        self.hashes: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all weights."""
        return self._weights.names

    def read(self, name: str) -> Tensor:
        """A weight."""
        import torch

        tensor = self._weights.read(name)
        if name not in self.hashes:
            content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
            self.hashes[name] = hashlib.sha256(content.tobytes()).hexdigest()
        return tensor

    def setting(self, path: str, *names: str) -> object | None:
        """What is known by one of these names."""
        return self._weights.setting(path, *names)
