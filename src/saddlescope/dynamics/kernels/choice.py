"""Which ensembles run in a kernel, and how it divides them among lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax

from saddlescope.attention import AbstractAttention, MergedAttention, SeparateAttention
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.risk import AbstractRisk, DiagonalRisk

if TYPE_CHECKING:
    from saddlescope.dynamics.methods.base import AbstractMethod

# The most entries of a trajectory that a lane keeps in registers: its weights, for a flow with the
# slopes of a step beside them. A lane that holds more spills, and its program compiles slowly.
_MOST_OF_DESCENT, _MOST_OF_FLOW = 48, 17
# With all heads unrolled, programs of larger maps take minutes to compile. One head at a time, they
# compile in five to eight seconds on an H200. They run at half the rate of a hand-written kernel in
# float32, and at seven times its rate in float64, where that one runs out of registers.
_MOST_DIMENSIONS, _MOST_IN_MEMORY = 4, 8
# The most entries of one head that a lane then holds beside the map.
_MOST_OF_A_HEAD = 17
# A warp.
_MOST_LANES = 32
# On an H200 a descent kernel takes eight seconds to compile. A flow kernel takes seventeen, and
# saves 90 µs a start in a run to t = 20 000.
_FEWEST_FLOWS, _FEWEST_DESCENTS = 2**18, 1024


@dataclass(frozen=True)
class Kernel:
    """How an ensemble is divided: a block of trajectories, and the heads of each among lanes."""

    lanes: int
    """Lanes that share the heads of a trajectory; a power of two."""
    block: int
    """Trajectories in a block; a power of two."""
    warps: int
    is_interpreted: bool = False
    """Whether it runs in Pallas' interpreter, without a GPU."""
    in_memory: bool = False
    """Whether heads stay in memory and are loaded into registers one at a time."""

    def heads(self, layout: Layout) -> int:
        """How many heads a lane holds."""
        return -(-_heads(layout) // self.lanes)


def choose_kernel(
    methods: Sequence[AbstractMethod],
    model: AbstractAttention,
    risk: AbstractRisk,
    layout: Layout,
    rows: int,
) -> Kernel | None:
    """The kernel for an ensemble of `rows`, None where XLA is better or there is no GPU.

    Kernels run linear attention in a common eigenbasis whose map fits into registers, where there
    are enough trajectories to be worth compiling for. `methods` are those of the ensemble's
    settings, all of one class.
    """
    if jax.default_backend() != "gpu" or not all(method.has_kernel for method in methods):
        return None
    is_flow, heads, lanes = not methods[0].counts_steps, _heads(layout), 1
    if rows < (_FEWEST_FLOWS if is_flow else _FEWEST_DESCENTS):
        return None
    if not _is_plain(model, risk):
        return None
    if layout.dimension > _MOST_DIMENSIONS:
        is_small = layout.dimension <= _MOST_IN_MEMORY and layout.size // heads <= _MOST_OF_A_HEAD
        if is_flow or not is_small:
            return None
        return Kernel(1, block=_MOST_LANES, warps=1, in_memory=True)
    most = _MOST_OF_FLOW if is_flow else _MOST_OF_DESCENT
    while -(-heads // lanes) * layout.size // heads > most:
        lanes *= 2
        if lanes > min(_MOST_LANES, 2 * heads):
            return None
    if is_flow:
        return Kernel(lanes, block=_MOST_LANES // lanes, warps=1)
    return Kernel(lanes, block=64, warps=2)


def _is_plain(model: AbstractAttention, risk: AbstractRisk) -> bool:
    return bool(
        isinstance(model, MergedAttention | SeparateAttention)
        and model.is_linear
        and model.blocks == "reduced"
        and isinstance(risk, DiagonalRisk)
    )


def _heads(layout: Layout) -> int:
    return layout.shapes[0][1][0]
