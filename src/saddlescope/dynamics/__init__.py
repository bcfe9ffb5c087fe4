"""How it is trained: gradient flow and gradient descent, exactly, in ensembles."""

from saddlescope.dynamics._padded_shape import PaddedShape
from saddlescope.dynamics._train import (
    evaluate,
    make_setting,
    resume,
    solver_error,
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
    "StochasticGradientDescent",
    "evaluate",
    "make_setting",
    "resume",
    "solver_error",
    "train",
    "train_many",
]
