"""Saddlescope: how attention learns to learn in context, trained exactly and predicted by theory.

The headline names are loaded when they are first used, so that `import saddlescope` is light.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_MODULES = ("attention", "dynamics", "measure", "task", "theory", "transformer")
_HOME = {
    "AbstractAttention": "attention",
    "AbstractLinearAttention": "attention",
    "BalancedStart": "attention",
    "ConvolutionalNetwork": "attention",
    "DeepAttention": "attention",
    "LinearTransformer": "attention",
    "EigenvectorStart": "attention",
    "FixedPointStart": "attention",
    "GivenStart": "attention",
    "MergedAttention": "attention",
    "PaperStart": "attention",
    "SeparateAttention": "attention",
    "TwoLayerNetwork": "attention",
    "GradientDescent": "dynamics",
    "GradientFlow": "dynamics",
    "Optimiser": "dynamics",
    "StochasticGradientDescent": "dynamics",
    "Progress": "dynamics",
    "Record": "dynamics",
    "evaluate": "dynamics",
    "resume": "dynamics",
    "run": "dynamics",
    "solver_error": "dynamics",
    "train": "dynamics",
    "AlignedRegression": "task",
    "ContextLengths": "task",
    "InContextRegression": "task",
    "Prompts": "task",
    "Spectrum": "task",
    "Statistics": "task",
    "TaskPool": "task",
    "VectorPrompts": "task",
    "AlgorithmDistances": "comparison",
    "identify_algorithm": "comparison",
    "trace_algorithms": "comparison",
    "Setting": "setting",
    "predict": "comparison",
    "Trajectory": "trajectory",
    "load": "storage",
    "Interrupted": "errors",
    "InvalidInput": "errors",
    "SaddlescopeError": "errors",
    "TheoryDoesNotApply": "errors",
}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"saddlescope.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"saddlescope.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'saddlescope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
