"""`look`: the measures of one model as it is now."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import xarray as xr

from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput
from saddlescope.observe._extras import require
from saddlescope.observe._heads import HeadOptions, measure_heads
from saddlescope.observe.adapters import AbstractAdapter
from saddlescope.observe.weights import AbstractWeights, ModelWeights, StateDict

if TYPE_CHECKING:
    from saddlescope.transformer import Decoder


def look(
    model: object,
    *,
    adapter: AbstractAdapter | str | None = None,
    heads: object = None,
    fold_norms: bool = False,
    directions: int = 4,
) -> xr.Dataset:
    """The measures of every head of a model, over (layer, head).

    `model` is a `torch.nn.Module`, a state dict or a `saddlescope.transformer.Decoder`. `adapter`
    names the family if no known one finds attention layers, `heads` the number of heads if the
    weights do not determine it. `fold_norms` folds the gain and bias of the norm in front of each
    layer into its circuits. The attribute `notes` holds what a reader must know about the family:
    biases, rotary positions, norms within heads.

    >>> import torch
    >>> layer = torch.nn.TransformerEncoderLayer(16, 4)
    >>> found = look(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    >>> found.qk_effective_rank.shape, found.layer_name.values.tolist()
    ((2, 4), ['layers.0.self_attn', 'layers.1.self_attn'])
    """
    options = HeadOptions(directions, fold_norms, adapter)
    found = measure_heads(weights_of(model, heads), options, {})
    axes = ("layer", "head", "index")
    return xr.Dataset(
        {name: (axes[: array.ndim], array.astype(float)) for name, array in found.arrays.items()},
        coords={"layer": range(len(found.layers)), "layer_name": ("layer", list(found.layers))},
        attrs={
            "adapter": found.adapter,
            "notes": list(found.notes),
            "problems": list(found.problems),
        },
    )


def weights_of(model: object, heads: object = None) -> AbstractWeights:
    """The weights of a module, a state dict or a decoder of ours."""
    torch = require("torch")
    given = {} if heads is None else {"heads": whole_number("heads", heads)}
    if isinstance(model, torch.nn.Module):
        return ModelWeights(model, given)
    if is_decoder(model):
        return _decoder_weights(model)
    tensors = isinstance(model, Mapping) and all(map(torch.is_tensor, model.values()))
    if not tensors:
        allowed = "must be a torch.nn.Module, a state dict or a saddlescope.transformer.Decoder"
        raise InvalidInput("model", type(model).__name__, allowed)
    return StateDict(model, given)  # type: ignore[arg-type]


def is_decoder(model: object) -> TypeGuard[Decoder]:
    """Whether it is a decoder of ours; where one is given, its room is loaded."""
    room = sys.modules.get("saddlescope.transformer")
    return room is not None and isinstance(model, room.Decoder)


def _decoder_weights(decoder: Decoder) -> StateDict:
    torch = require("torch")
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in decoder.weights.items()}
    return StateDict(tensors, dataclasses.asdict(decoder.shape))
