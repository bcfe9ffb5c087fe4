"""How it is trained: gradient flow and gradient descent, exactly, in ensembles."""

from saddlescope.dynamics._evaluate import evaluate
from saddlescope.dynamics._train import resume, run, solver_error, train
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.dynamics.methods.descent import (
    GradientDescent,
    Optimiser,
    StochasticGradientDescent,
)
from saddlescope.dynamics.methods.flow import GradientFlow
from saddlescope.dynamics.record import Record
from saddlescope.dynamics.risk import AbstractRisk
from saddlescope.running.progress import Progress

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
