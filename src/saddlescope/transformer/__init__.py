"""The non-linear models: small decoders, what they are trained on, and how they are measured."""

from saddlescope.transformer.checkpoint import load_decoder, save_decoder
from saddlescope.transformer.decoder import Decoder, DecoderShape
from saddlescope.transformer.evaluation import (
    AbstractEvaluation,
    ArithmeticEvaluation,
    LanguageEvaluation,
)
from saddlescope.transformer.optimiser import AdamW
from saddlescope.transformer.sources import (
    AbstractSource,
    BigramTriggers,
    BytePairs,
    ModularArithmetic,
    RepeatedTokens,
    Text,
)
from saddlescope.transformer.training import Fit, fit

__all__ = [
    "AbstractEvaluation",
    "AbstractSource",
    "AdamW",
    "ArithmeticEvaluation",
    "BigramTriggers",
    "BytePairs",
    "Decoder",
    "DecoderShape",
    "Fit",
    "LanguageEvaluation",
    "ModularArithmetic",
    "RepeatedTokens",
    "Text",
    "fit",
    "load_decoder",
    "save_decoder",
]
