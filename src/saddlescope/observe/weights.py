"""Weights by name, of a live model or a state dict, with the model's configuration."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from saddlescope.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

# The prefix that torch.compile puts into the names of what it wraps.
_COMPILED = "_orig_mod."
_WRAPPERS = ("DataParallel", "DistributedDataParallel")
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")
_SHARDED_CURE = (
    "is sharded over processes (FSDP or ZeRO), where no process holds a whole weight: save "
    "full state dicts and give them to `saddlescope observe`"
)


class AbstractWeights(abc.ABC):
    """Weights that adapters read, one at a time."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all weights."""

    @abc.abstractmethod
    def read(self, name: str) -> Tensor:
        """A weight, without gradients."""

    @abc.abstractmethod
    def setting(self, path: str, *names: str) -> object | None:
        """The setting under one of these names: of the module at a path, or of the whole model."""

    @property
    def is_on_cpu(self) -> bool:
        """Whether they are in CPU memory, as weights from files are."""
        return True

    def find(self, *names: str) -> Tensor | None:
        """The first of these weights that exists."""
        return next((self.read(name) for name in names if name in self.names), None)

    def heads(self, path: str, *names: str) -> int:
        """The number of heads, which the shapes of fused weights do not determine."""
        value = self.setting(path, "heads", *names)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            allowed = f"must be given: the weights of {path!r} do not tell how many heads they have"
            raise InvalidInput("heads", value, allowed)
        return value


class StateDict(AbstractWeights):
    """Tensors by name; `config` holds what the model was built from."""

    def __init__(self, tensors: Mapping[str, Tensor], config: Mapping[str, object]) -> None:
        self._tensors = {clean(name): tensor for name, tensor in tensors.items()}
        self._config = config

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all weights."""
        return tuple(self._tensors)

    def read(self, name: str) -> Tensor:
        """A weight, without gradients."""
        return checked(name, self._tensors[name])

    def setting(self, path: str, *names: str) -> object | None:
        """The config's value under one of these names."""
        return configured(self._config, names)


class ModelWeights(AbstractWeights):
    """The parameters of a live model, read as they are at that moment."""

    def __init__(self, model: Module, given: Mapping[str, object]) -> None:
        self.model = unwrapped(model)
        self._given = given
        self._parameters = {clean(name): one for name, one in self.model.named_parameters()}
        modules = dict(self.model.named_modules())
        self._modules = {clean(f"{name}.")[:-1]: one for name, one in modules.items()}

    @property
    def is_on_cpu(self) -> bool:
        """Whether all parameters are in CPU memory."""
        return all(one.device.type == "cpu" for one in self._parameters.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return tuple(self._parameters)

    def read(self, name: str) -> Tensor:
        """A parameter, without gradients."""
        return checked(name, self._parameters[name])

    def setting(self, path: str, *names: str) -> object | None:
        """The given value, else that of the module at a path, else that of the model's config."""
        given = configured(self._given, names)
        if given is not None:
            return given
        module = self._modules.get(path)
        for name in names:
            if isinstance(found := getattr(module, name, None), int):
                return found
        # The model may be inside another one that has no config.
        while True:
            value = configured(_config_of(self._modules.get(path)), names)
            if value is not None or not path:
                return value
            path = path.rpartition(".")[0]


def _config_of(module: Module | None) -> Mapping[str, object]:
    """The config that a module was built from; TransformerLens calls it cfg."""
    config = getattr(module, "config", None) or getattr(module, "cfg", None)
    as_dict = getattr(config, "to_dict", None)
    known = config if as_dict is None else as_dict()
    return known if isinstance(known, Mapping) else {}


def clean(name: str) -> str:
    """The name of a weight without the prefix that compiling adds.

    >>> clean("_orig_mod.h.0._orig_mod.attn.c_attn.weight")
    'h.0.attn.c_attn.weight'
    """
    return name.replace(_COMPILED, "")


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts numbers within texts by size.

    >>> sorted(["step10", "step9"], key=natural)
    ['step9', 'step10']
    """
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)
    ]


def configured(config: Mapping[str, object], names: tuple[str, ...]) -> object | None:
    """The value of the first of these names that a config has."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def checked(name: str, tensor: Tensor) -> Tensor:
    """A weight of floating-point numbers, without gradients."""
    if not tensor.is_floating_point():
        allowed = "must be floating point: quantised weights are not read"
        raise InvalidInput(f"{name}.dtype", str(tensor.dtype), allowed)
    return tensor.detach()


def unwrapped(model: Module) -> Module:
    """The model inside a compiling or replicating wrapper; a sharded one is refused."""
    while True:
        name = _COMPILED[:-1] if hasattr(model, _COMPILED[:-1]) else "module"
        if name == "module" and type(model).__name__ not in _WRAPPERS:
            break
        model = getattr(model, name)
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    lost = any(hasattr(one, "full_tensor") or hasattr(one, "ds_id") for one in model.parameters())
    if lost or kinds & set(_SHARDED):
        raise InvalidInput("model", type(model).__name__, _SHARDED_CURE)
    return model
