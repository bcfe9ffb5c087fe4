"""Predictions of a setting, and comparisons of runs with them."""

from saddlescope.comparison._compare import compare
from saddlescope.comparison._comparison import Comparison, DropComparison, SeedComparison
from saddlescope.comparison._predict import predict
from saddlescope.comparison._prediction import PredictedPoint, PredictedSeed, Prediction
from saddlescope.comparison.algorithms import (
    AlgorithmDistances,
    identify_algorithm,
    trace_algorithms,
)

__all__ = [
    "AlgorithmDistances",
    "Comparison",
    "DropComparison",
    "PredictedPoint",
    "PredictedSeed",
    "Prediction",
    "SeedComparison",
    "compare",
    "identify_algorithm",
    "predict",
    "trace_algorithms",
]
