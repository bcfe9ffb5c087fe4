"""Training: gradient flow and gradient descent, exact, in ensembles."""

from saddlescope.dynamics._padded_shape import PaddedShape
from saddlescope.dynamics._summary import RunSummary
from saddlescope.dynamics._train import (
    evaluate,
    make_setting,
    resume,
    solver_error,
    summarise_many,
    train,
    train_many,
)
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.dynamics.methods.descent import (
    GradientDescent,
    Optimiser,
    StochasticGradientDescent,
)
from saddlescope.dynamics.methods.flow import GradientFlow
from saddlescope.dynamics.record import Record

__all__ = [
    "AbstractMethod",
    "GradientDescent",
    "GradientFlow",
    "Optimiser",
    "PaddedShape",
    "Record",
    "RunSummary",
    "StochasticGradientDescent",
    "evaluate",
    "make_setting",
    "resume",
    "solver_error",
    "summarise_many",
    "train",
    "train_many",
]
