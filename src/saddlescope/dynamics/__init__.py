"""How it is trained: gradient flow and gradient descent, exactly, in ensembles."""

from saddlescope.dynamics.descent import GradientDescent, Optimiser, StochasticGradientDescent
from saddlescope.dynamics.evaluate import evaluate
from saddlescope.dynamics.flow import GradientFlow
from saddlescope.dynamics.method import AbstractMethod
from saddlescope.dynamics.record import Record
from saddlescope.dynamics.risk import AbstractRisk
from saddlescope.dynamics.train import resume, run, solver_error, train
from saddlescope.progress import Progress

__all__ = [
    "AbstractMethod",
    "AbstractRisk",
    "GradientDescent",
    "GradientFlow",
    "Optimiser",
    "Progress",
    "Record",
    "StochasticGradientDescent",
    "evaluate",
    "resume",
    "run",
    "solver_error",
    "train",
]
