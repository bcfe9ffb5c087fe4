"""Measure a model and leave it as it was: mode, random states, precision."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch.nn import Module


@contextmanager
def undisturbed(model: Module) -> Iterator[None]:
    """Turn off gradients, dropout, autocasting and compiling; all are restored afterwards."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    devices = {one.device for one in model.parameters() if one.device.type == "cuda"}
    kinds = {one.device.type for one in model.parameters()} or {"cpu"}
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=list(devices)),
            torch.compiler.set_stance("force_eager"),
        ):
            for module, _ in modes:
                # The attribute alone: `train` and `eval` may be the user's own.
                module.training = False
            with _single_precision(kinds):
                yield
    finally:
        for module, mode in modes:
            module.training = mode
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextmanager
def _single_precision(kinds: set[str]) -> Iterator[None]:
    import torch

    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield
