"""The loss of a model's own predictions on prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Float

from saddlescope.arrays import Array, Weights
from saddlescope.risk.base import AbstractRisk

if TYPE_CHECKING:
    from saddlescope.attention import AbstractAttention
    from saddlescope.task import Prompts


class PromptRisk(AbstractRisk):
    """The mean-square loss on prompts, its gradient by autodiff."""

    gain: Array
    prompts: Prompts

    def loss(self, model: AbstractAttention, weights: Weights) -> Float[Array, ""]:
        predicted = model.predict(weights, self.prompts, self.gain)
        # A mean over prompts, and a sum over the entries of a vector label.
        return ((self.prompts.target - predicted) ** 2).sum() / predicted.shape[0]
