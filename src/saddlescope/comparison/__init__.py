"""Where dynamics and theory meet: predictions of a setting, and runs beside them."""

from saddlescope.comparison._compare import compare
from saddlescope.comparison._predict import predict
from saddlescope.comparison._results import (
    Comparison,
    DropComparison,
    PredictedPoint,
    PredictedSeed,
    Prediction,
    SeedComparison,
)
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
