"""Other people's runs: the measures of every attention head, live or over checkpoints.

`Recorder` records in a plain training loop, `HuggingFaceCallback` in Hugging Face's Trainer,
`LightningCallback` in Lightning's. `observe_checkpoints` reads saved models, `look` measures one
model, and `load` returns what any of them has written as one dataset. `read_log` reads the loss
curves in other people's logs. A model of your own needs an adapter (`Projections`, `adapters`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saddlescope.observe.adapters import AbstractAdapter, AttentionLayer, Projections
    from saddlescope.observe.checkpoints import Observation, observe_checkpoints
    from saddlescope.observe.dataset import load
    from saddlescope.observe.huggingface import HuggingFaceCallback
    from saddlescope.observe.lightning import LightningCallback
    from saddlescope.observe.logs import Log, LossCurve, read_log
    from saddlescope.observe.recorder import Recorder
    from saddlescope.observe.snapshot import look

# Loaded on first use: torch and what is built on it are heavy, and may not be installed.
_HOMES = {
    "AbstractAdapter": "adapters",
    "AttentionLayer": "adapters",
    "HuggingFaceCallback": "huggingface",
    "LightningCallback": "lightning",
    "Log": "logs",
    "LossCurve": "logs",
    "Observation": "checkpoints",
    "Projections": "adapters",
    "Recorder": "recorder",
    "load": "dataset",
    "look": "snapshot",
    "observe_checkpoints": "checkpoints",
    "read_log": "logs",
}

__all__ = [
    "AbstractAdapter",
    "AttentionLayer",
    "HuggingFaceCallback",
    "LightningCallback",
    "Log",
    "LossCurve",
    "Observation",
    "Projections",
    "Recorder",
    "load",
    "look",
    "observe_checkpoints",
    "read_log",
]


def __getattr__(name: str) -> object:
    if name == "adapters":
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
