"""What is trained: linear attention, merged and separate, and the networks it is equivalent to."""

from saddlescope.attention.base import AbstractAttention, Weights
from saddlescope.attention.linear_network import ConvolutionalNetwork, TwoLayerNetwork
from saddlescope.attention.merged import MergedAttention
from saddlescope.attention.separate import SeparateAttention
from saddlescope.attention.starts import (
    AbstractStart,
    BalancedStart,
    EigenvectorStart,
    FixedPointStart,
    GivenStart,
    PaperStart,
)

__all__ = [
    "AbstractAttention",
    "AbstractStart",
    "BalancedStart",
    "ConvolutionalNetwork",
    "EigenvectorStart",
    "FixedPointStart",
    "GivenStart",
    "MergedAttention",
    "PaperStart",
    "SeparateAttention",
    "TwoLayerNetwork",
    "Weights",
]
