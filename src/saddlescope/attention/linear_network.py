"""The multi-layer linear networks that linear attention is equivalent to (T4)."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float

from saddlescope.arrays import Array, Weights, unvectorise, vectorise
from saddlescope.attention.base import AbstractLinearAttention, Parametrisation
from saddlescope.attention.merged import MergedAttention
from saddlescope.attention.separate import SeparateAttention
from saddlescope.checks import FloatArray
from saddlescope.setting.kinds import kind

if TYPE_CHECKING:
    from saddlescope.task import Prompts


class AbstractNetwork(AbstractLinearAttention):
    """A network equivalent to an attention: its weights in other orthonormal coordinates."""

    @property
    @abc.abstractmethod
    def attention(self) -> AbstractLinearAttention:
        """The equivalent attention."""

    @property
    def degree(self) -> int:
        return self.attention.degree

    @property
    def sums_heads(self) -> bool:
        return True

    @property
    def parametrisation(self) -> Parametrisation | None:
        return self.attention.parametrisation

    def capacity(self, dimension: int) -> int:
        return self.attention.capacity(dimension)

    def rotate(self, weights: Weights, basis: Float[Array, "D D"]) -> Weights:
        return self.from_attention(self.attention.rotate(self.to_attention(weights), basis))

    def conserved(self, weights: Weights) -> Weights:
        return self.attention.conserved(self.to_attention(weights))

    @property
    def conserved_axes(self) -> Mapping[str, tuple[str, ...]]:
        return self.attention.conserved_axes

    def balance(self, weights: Weights) -> Weights:
        return self.from_attention(self.attention.balance(self.to_attention(weights)))

    def realise(self, effective_map: FloatArray) -> Weights:
        return self.from_attention(self.attention.realise(effective_map))


@kind("model", "two_layer_network")
@dataclass(frozen=True)
class TwoLayerNetwork(AbstractNetwork):
    r"""$\hat y = w_2^\top W_1 z$, two layers on the cubic feature (Z eq. 11).

    $z = \mathrm{vec}(\beta x_q^\top)$. There are `heads` hidden units, with weights `output[H]` and
    `hidden[H, D²]`. With `hidden` holding the stacked columns of $U_i$ it is `MergedAttention`,
    step by step.

    >>> import saddlescope as ss
    >>> ss.TwoLayerNetwork(heads=3).shapes(dimension=2)
    {'output': (3,), 'hidden': (3, 4)}
    """

    heads: int
    normalisation: str = "context"

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"output": ("head",), "hidden": ("head", "feature")}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        return {"output": (self.heads,), "hidden": (self.heads, dimension**2)}

    def deviations(self, dimension: int) -> dict[str, float]:
        merged = self.attention.deviations(dimension)
        return {"output": merged["v"], "hidden": merged["U"]}

    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Float[Array, "D D"]:
        return gain * unvectorise(weights["hidden"].T @ weights["output"])

    def pull_back(self, weights: Weights, force: Float[Array, "D D"]) -> Weights:
        vector = vectorise(force)
        return {
            "output": weights["hidden"] @ vector,
            "hidden": weights["output"][:, None] * vector[None, :],
        }

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        return gain * (prompts.cubic_features @ weights["hidden"].T) @ weights["output"]

    @property
    def attention(self) -> MergedAttention:
        return MergedAttention(self.heads, self.normalisation)

    def from_attention(self, weights: Weights) -> Weights:
        """The network's weights from those of `MergedAttention`."""
        return {"output": weights["v"], "hidden": vectorise(weights["U"])}

    def to_attention(self, weights: Weights) -> Weights:
        """The weights of `MergedAttention` from the network's."""
        return {"v": weights["output"], "U": unvectorise(weights["hidden"])}


@kind("model", "convolutional_network")
@dataclass(frozen=True)
class ConvolutionalNetwork(AbstractNetwork):
    r"""$\hat y = \sum_i v_i\, q_i^\top K_i z$, three layers on the cubic feature (Z eq. 18).

    $K_i$ slides one kernel $k_i$ of length D over z with stride D. Weights `output[H]`,
    `kernel[H, D]`, `hidden[H, D]`. It is rank-one `SeparateAttention`, step by step.

    >>> import saddlescope as ss
    >>> ss.ConvolutionalNetwork(heads=3).shapes(dimension=2)
    {'output': (3,), 'kernel': (3, 2), 'hidden': (3, 2)}
    """

    heads: int
    normalisation: str = "context"

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        return {"output": ("head",), "kernel": ("head", "dim"), "hidden": ("head", "dim")}

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        layer = (self.heads, dimension)
        return {"output": (self.heads,), "kernel": layer, "hidden": layer}

    def deviations(self, dimension: int) -> dict[str, float]:
        separate = self.attention.deviations(dimension)
        return {"output": separate["v"], "kernel": separate["k"], "hidden": separate["q"]}

    def effective_map(self, weights: Weights, gain: Array = 1.0) -> Float[Array, "D D"]:
        return self.attention.effective_map(self.to_attention(weights), gain)

    def pull_back(self, weights: Weights, force: Float[Array, "D D"]) -> Weights:
        # Each layer's gradient by way of the feature's force: patches of g are its columns.
        dimension = force.shape[-1]
        patches = vectorise(force).reshape(dimension, dimension)
        convolved = weights["kernel"] @ patches.T
        spread = weights["hidden"] @ patches
        output = weights["output"][:, None]
        return {
            "output": (convolved * weights["hidden"]).sum(-1),
            "kernel": output * spread,
            "hidden": output * convolved,
        }

    def predict(
        self, weights: Weights, prompts: Prompts, gain: Array = 1.0
    ) -> Float[Array, "P *labels"]:
        shape = (prompts.count, prompts.dimension, prompts.dimension)
        patches = prompts.cubic_features.reshape(shape)
        convolved = patches @ weights["kernel"].T
        return gain * (convolved * weights["hidden"].T[None]).sum(1) @ weights["output"]

    @property
    def attention(self) -> SeparateAttention:
        return SeparateAttention(self.heads, 1, self.normalisation)

    def from_attention(self, weights: Weights) -> Weights:
        """The network's weights from those of rank-one `SeparateAttention`."""
        return {
            "output": weights["v"],
            "kernel": weights["k"][..., 0, :],
            "hidden": weights["q"][..., 0, :],
        }

    def to_attention(self, weights: Weights) -> Weights:
        """The weights of rank-one `SeparateAttention` from the network's."""
        return {
            "v": weights["output"],
            "k": weights["kernel"][..., None, :],
            "q": weights["hidden"][..., None, :],
        }
