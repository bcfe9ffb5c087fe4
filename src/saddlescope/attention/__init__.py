"""Models: merged, separate and deep attention, and the networks equivalent to them."""

from saddlescope.arrays import Weights
from saddlescope.attention.base import AbstractAttention, AbstractLinearAttention, Parametrisation
from saddlescope.attention.deep import DeepAttention
from saddlescope.attention.linear_network import ConvolutionalNetwork, TwoLayerNetwork
from saddlescope.attention.linear_transformer import LinearTransformer
from saddlescope.attention.merged import MergedAttention
from saddlescope.attention.separate import SeparateAttention
from saddlescope.attention.starts import (
    AbstractStart,
    BalancedStart,
    EigenvectorStart,
    FixedPointStart,
    GivenStart,
    RandomStart,
)

__all__ = [
    "AbstractAttention",
    "AbstractLinearAttention",
    "AbstractStart",
    "BalancedStart",
    "ConvolutionalNetwork",
    "DeepAttention",
    "EigenvectorStart",
    "FixedPointStart",
    "GivenStart",
    "LinearTransformer",
    "MergedAttention",
    "Parametrisation",
    "RandomStart",
    "SeparateAttention",
    "TwoLayerNetwork",
    "Weights",
]
