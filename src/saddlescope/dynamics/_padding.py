"""Padding a prepared setting to a larger shape, so that more settings share one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.attention import AbstractAttention
from saddlescope.dynamics._frame import Frame
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.precision import within

Shape: TypeAlias = tuple[AbstractAttention, int]
"""A model and its input dimension, which determine the shapes of weights."""


def shape_of(prepared: Prepared) -> Shape:
    return prepared.setting.model, prepared.problem.dimension


def can_be_padded(prepared: Prepared, dimension: int | None = None) -> bool:
    """Whether zero heads and dimensions without power, up to `dimension`, change nothing.

    They do where steps are taken on prompts, or where the loss depends on the dimension.
    """
    problem = prepared.problem
    return bool(
        prepared.setting.method.keeps_zeros
        and problem.model.inert_sizes
        and problem.risk.padded(dimension or padded_size(problem.dimension)) is not None
    )


def padded_size(size: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: sizes between two of them are padded alike."""
    power = 2 ** math.floor(math.log2(size))
    return next(padded for padded in (power, power * 3 // 2, power * 2) if padded >= size)


def resized(model: AbstractAttention, sizes: dict[str, int]) -> AbstractAttention:
    return replace(model, **sizes)  # type: ignore[type-var]


def smallest_frame(prepared: Sequence[Prepared], rows: int) -> Frame:
    """The smallest frame of settings that differ in inert sizes only."""
    models, dimensions = zip(*map(shape_of, prepared), strict=True)
    inert = models[0].inert_sizes
    sizes = [(name, max(getattr(model, name) for model in models)) for name in inert]
    points = max(len(item.grid) for item in prepared)
    return Frame(tuple(sizes), max(dimensions), points, rows)


def padded(prepared: Prepared, shape: Shape, frame: Frame) -> Problem:
    """The problem of a setting in a shape that it fits into, for the rows of a frame."""
    problem, (model, dimension) = prepared.problem, shape
    risk = problem.risk
    missing = max(frame.points - len(prepared.grid), 0)
    grid = np.concatenate([prepared.grid, np.repeat(prepared.grid[-1:], missing)])
    layout, most = Layout.of(model, dimension), -(-frame.rows // frame.groups)
    with within(prepared.precision):
        if dimension != problem.dimension:
            enlarged = risk.padded(dimension)
            assert enlarged is not None
            risk = jax.device_put(enlarged)
        return replace(
            problem,
            model=model,
            layout=layout,
            group=min(group_size(frame.rows, layout.size, dimension), most),
            has_rows=True,
            kernel=None,
            risk=risk,
            grid=jax.device_put(grid[-frame.points :]),
            marks=_padded_marks(problem.marks, dimension),
        )


def _padded_marks(marks: Marks | None, most: int) -> Marks | None:
    """As many marks as there can be in `most` dimensions; the added ones are never crossed."""
    if marks is None:
        return None

    def pad(values: Float[Array, " M"], size: int) -> Float[Array, " size"]:
        return jnp.pad(values, (0, size - len(values)), constant_values=jnp.nan)

    halves = len(marks.halves) and most
    return Marks(middles=pad(marks.middles, most), halves=pad(marks.halves, halves))
