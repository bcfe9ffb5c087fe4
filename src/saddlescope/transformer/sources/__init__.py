"""Training data for decoders, without downloads."""

from saddlescope.transformer.sources.base import AbstractSource
from saddlescope.transformer.sources.bpe import BytePairs
from saddlescope.transformer.sources.modular import ModularArithmetic, Operation
from saddlescope.transformer.sources.repeated import RepeatedTokens
from saddlescope.transformer.sources.text import Encoding, Text
from saddlescope.transformer.sources.triggers import BigramTriggers

__all__ = [
    "AbstractSource",
    "BigramTriggers",
    "BytePairs",
    "Encoding",
    "ModularArithmetic",
    "Operation",
    "RepeatedTokens",
    "Text",
]
