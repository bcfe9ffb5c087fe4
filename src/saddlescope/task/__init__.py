"""Tasks and data: covariances, the in-context regression law, given prompts."""

from saddlescope.task.aligned import AlignedRegression
from saddlescope.task.base import AbstractData, AbstractTask
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments, sandwich
from saddlescope.task.pool import TaskPool
from saddlescope.task.prompts import Prompts
from saddlescope.task.regression import InContextRegression
from saddlescope.task.spectrum import Spectrum
from saddlescope.task.statistics import Statistics

__all__ = [
    "AbstractData",
    "AbstractTask",
    "AlignedRegression",
    "ContextLengths",
    "InContextRegression",
    "Prompts",
    "RegressionMoments",
    "Spectrum",
    "Statistics",
    "TaskPool",
    "regression_moments",
    "sandwich",
]
