"""What it is trained on: covariances, the in-context regression law, given prompts."""

from saddlescope.task.aligned import AlignedRegression, VectorPrompts
from saddlescope.task.base import AbstractTask
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments, sandwich
from saddlescope.task.pool import TaskPool
from saddlescope.task.prompts import Prompts, Statistics
from saddlescope.task.regression import InContextRegression
from saddlescope.task.spectrum import Spectrum

__all__ = [
    "AbstractTask",
    "AlignedRegression",
    "ContextLengths",
    "InContextRegression",
    "Prompts",
    "RegressionMoments",
    "Spectrum",
    "Statistics",
    "TaskPool",
    "VectorPrompts",
    "regression_moments",
    "sandwich",
]
