"""One run as one object: the schema behind plans, addresses, attributes and cache keys."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.checks import FloatArray, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.spectrum import Spectrum

FORMAT = 1

# Arrays up to this size are written out; larger ones are named by their digest.
_WRITTEN_OUT = 64

KINDS = {
    "spectrum": "saddlescope.task.spectrum:Spectrum",
    "context_lengths": "saddlescope.task.lengths:ContextLengths",
    "in_context_regression": "saddlescope.task.regression:InContextRegression",
    "aligned_regression": "saddlescope.task.aligned:AlignedRegression",
    "vector_prompts": "saddlescope.task.aligned:VectorPrompts",
    "task_pool": "saddlescope.task.pool:TaskPool",
    "prompts": "saddlescope.task.prompts:Prompts",
    "statistics": "saddlescope.task.prompts:Statistics",
    "merged_attention": "saddlescope.attention.merged:MergedAttention",
    "separate_attention": "saddlescope.attention.separate:SeparateAttention",
    "two_layer_network": "saddlescope.attention.linear_network:TwoLayerNetwork",
    "convolutional_network": "saddlescope.attention.linear_network:ConvolutionalNetwork",
    "deep_attention": "saddlescope.attention.deep:DeepAttention",
    "linear_transformer": "saddlescope.attention.linear_transformer:LinearTransformer",
    "gradient_flow": "saddlescope.dynamics.methods.flow:GradientFlow",
    "gradient_descent": "saddlescope.dynamics.methods.descent:GradientDescent",
    "stochastic_gradient_descent": "saddlescope.dynamics.methods.descent:StochasticGradientDescent",
    "optimiser": "saddlescope.dynamics.methods.descent:Optimiser",
    "paper_start": "saddlescope.attention.starts:PaperStart",
    "balanced_start": "saddlescope.attention.starts:BalancedStart",
    "fixed_point_start": "saddlescope.attention.starts:FixedPointStart",
    "eigenvector_start": "saddlescope.attention.starts:EigenvectorStart",
    "given_start": "saddlescope.attention.starts:GivenStart",
    "record": "saddlescope.dynamics.record:Record",
}
# What tells each part of a setting: a method or property that only its kind has.
_OFFERS = {
    "task": "dimension",
    "model": "shapes",
    "method": "counts_steps",
    "init": "weights",
    "record": "grid",
}
_KIND_OF = {path: kind for kind, path in KINDS.items()}


@dataclass(frozen=True)
class Opaque:
    """Stands for an object that has no description, such as an optax optimiser made by hand."""

    name: str


@dataclass(frozen=True, eq=False)
class Setting:
    """All that a run depends on.

    `task`, `model`, `method`, `init` and `record` are the objects that `train` takes; `seeds` are
    the seeds of its ensemble. Two settings are equal when their digests are.
    """

    task: Any
    model: Any
    method: Any
    init: Any
    record: Any
    seeds: Any

    def __post_init__(self) -> None:
        for field, offers in _OFFERS.items():
            if not hasattr(getattr(self, field), offers):
                raise InvalidInput(field, getattr(self, field), f"cannot be used as a {field}")
        if not isinstance(self.seeds, Iterable):
            raise InvalidInput("seeds", self.seeds, "must be a sequence of whole numbers")
        seeds = tuple(whole_number("seeds", seed, at_least=0) for seed in self.seeds)
        if not seeds or len(set(seeds)) != len(seeds):
            raise InvalidInput("seeds", self.seeds, "must hold at least one seed, each once")
        object.__setattr__(self, "seeds", seeds)
        # A start that does not fit the model and the task is found here, before anything runs.
        for seed in {seeds[0], max(seeds)}:
            self.init.weights(self.model, self.task, seed)

    def to_dict(self, arrays: dict[str, FloatArray] | None = None) -> dict[str, Any]:
        """The setting as plain values; large arrays go into `arrays` under their digest."""
        found: dict[str, FloatArray] = {} if arrays is None else arrays
        parts = {
            field.name: _describe(getattr(self, field.name), found)
            for field in dataclasses.fields(self)
        }
        return {"format": FORMAT, **parts}

    @classmethod
    def from_dict(cls, values: Any, arrays: Mapping[str, FloatArray] | None = None) -> Setting:
        """Build and validate a setting from plain values (the inverse of `to_dict`)."""
        if not isinstance(values, Mapping):
            raise InvalidInput("setting", values, "must be a mapping of fields to values")
        given = dict(values)
        version = given.pop("format", FORMAT)
        if version != FORMAT:
            raise InvalidInput("format", version, f"this version reads format {FORMAT}")
        names = [field.name for field in dataclasses.fields(cls)]
        _check_fields("setting", given, names, names)
        built = {name: _build(name, value, arrays or {}) for name, value in given.items()}
        return cls(**built)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the setting."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _describe(value: Any, arrays: dict[str, FloatArray]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, np.ndarray):
        return _describe_array(value, arrays)
    if isinstance(value, Opaque):
        return {"opaque": value.name}
    if callable(getattr(value, "update", None)) and callable(getattr(value, "init", None)):
        return {"opaque": f"{value.update.__qualname__} at {id(value):x}"}
    if isinstance(value, tuple | list):
        return [_describe(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _describe(item, arrays) for name, item in value.items()}
    if isinstance(value, Spectrum) and np.array_equal(value.basis, np.eye(value.dimension)):
        return _describe(value.eigenvalues, arrays)
    if isinstance(value, ContextLengths) and value.is_fixed:
        return value.lengths[0]
    path = f"{type(value).__module__}:{type(value).__qualname__}"
    fields = {
        field.name: _describe(getattr(value, field.name), arrays)
        for field in dataclasses.fields(value)
    }
    return {"kind": _KIND_OF.get(path, path), **fields}


def _describe_array(value: FloatArray, arrays: dict[str, FloatArray]) -> Any:
    if value.size <= _WRITTEN_OUT:
        return value.tolist()
    data = np.ascontiguousarray(value, dtype="<f8")
    name = hashlib.sha256(str(data.shape).encode() + data.tobytes()).hexdigest()[:16]
    arrays[name] = value
    return {"array": name, "shape": list(value.shape)}


def _build(field: str, value: Any, arrays: Mapping[str, FloatArray]) -> Any:
    if isinstance(value, list):
        return tuple(_build(field, item, arrays) for item in value)
    if not isinstance(value, Mapping):
        return value
    if "opaque" in value:
        return Opaque(str(value["opaque"]))
    if "array" in value:
        if value["array"] not in arrays:
            raise InvalidInput(field, value["array"], "is the digest of data that is not at hand")
        return arrays[value["array"]]
    if "kind" not in value:
        return {name: _build(f"{field}.{name}", item, arrays) for name, item in value.items()}
    given = dict(value)
    target = _resolve(field, given.pop("kind"))
    parameters = inspect.signature(target).parameters
    required = [name for name, p in parameters.items() if p.default is inspect.Parameter.empty]
    _check_fields(field, given, list(parameters), required)
    return target(**{name: _build(f"{field}.{name}", v, arrays) for name, v in given.items()})


def _resolve(field: str, kind: Any) -> Any:
    if isinstance(kind, str) and kind in KINDS:
        module, _, name = KINDS[kind].partition(":")
        return getattr(importlib.import_module(module), name)
    # A class of the user's own is found where the user has imported it; reading a setting imports
    # and calls nothing else.
    module, _, name = str(kind).partition(":")
    target = getattr(sys.modules.get(module), name, None)
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        raise InvalidInput(
            f"{field}.kind", kind, f"must be {', '.join(KINDS)}, or a dataclass already imported"
        )
    return target


def _check_fields(
    owner: str, given: Mapping[str, Any], allowed: list[str], required: list[str]
) -> None:
    for name in given:
        if name not in allowed:
            raise InvalidInput(
                f"{owner}.{name}", given[name], f"unknown field; allowed: {', '.join(allowed)}"
            )
    for name in required:
        if name not in given:
            raise InvalidInput(f"{owner}.{name}", None, "is missing")
