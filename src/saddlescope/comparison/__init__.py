"""Where dynamics and theory meet: predictions of a setting, and runs beside them."""

from saddlescope.comparison._compare import Comparison, DropComparison, SeedComparison, compare
from saddlescope.comparison._predict import Prediction, predict
from saddlescope.comparison.algorithms import (
    AlgorithmDistances,
    identify_algorithm,
    trace_algorithms,
)

__all__ = [
    "AlgorithmDistances",
    "Comparison",
    "DropComparison",
    "Prediction",
    "SeedComparison",
    "compare",
    "identify_algorithm",
    "predict",
    "trace_algorithms",
]
