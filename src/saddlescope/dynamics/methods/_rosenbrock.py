"""Steinebach's Rodas5P: a Rosenbrock method of order 5 for stiff equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.dynamics.methods._solver import AbstractFlowSolver, Dense

_GAMMA = 0.21193756319429014
# The coefficients a and C: increments of earlier stages in each stage's argument and right side.
_A_FIRST = [
    [],
    [3.0],
    [2.849394379747939, 0.45842242204463923],
    [-6.954028509809101, 2.489845061869568, -10.358996098473584],
    [2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641],
    [
        -7.502846399306121,
        2.561846144803919,
        -11.627539656261098,
        -0.18268767659942256,
        0.030198172008377946,
    ],
]
_A = [*_A_FIRST, *[[*_A_FIRST[-1], *[1.0] * last] for last in (1, 2, 3)]]
_C = [
    [],
    [-14.155112264123755],
    [-17.97296035885952, -2.859693295451294],
    [147.12150275711716, -1.41221402718213, 71.68940251302358],
    [165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306],
    [
        24.854864614690072,
        -3.0009227002832186,
        47.4931110020768,
        5.5814197821558125,
        -0.6610691825249471,
    ],
    [
        30.91273214028599,
        -3.1208243349937974,
        77.79954646070892,
        34.28646028294783,
        -19.097331116725623,
        -28.087943162872662,
    ],
    [
        37.80277123390563,
        -3.2571969029072276,
        112.26918849496327,
        66.9347231244047,
        -40.06618937091002,
        -54.66780262877968,
        -9.48861652309627,
    ],
    [],
]
# Both for the stage after each increment; the last stage is at the end of the step.
_TABLES = np.array(
    [[[*row, *[0.0] * (8 - len(row))] for row in pair] for pair in zip(_A[1:], _C[1:], strict=True)]
)
_DENSE = [
    [
        25.948786856663858,
        -2.5579724845846235,
        10.433815404888879,
        -2.3679251022685204,
        0.524948541321073,
        1.1241088310450404,
        0.4272876194431874,
        -0.17202221070155493,
    ],
    [
        -9.91568850695171,
        -0.9689944594115154,
        3.0438037242978453,
        -24.495224566215796,
        20.176138334709044,
        15.98066361424651,
        -6.789040303419874,
        -6.710236069923372,
    ],
    [
        11.419903575922262,
        2.8879645146136994,
        72.92137995996029,
        80.12511834622643,
        -52.072871366152654,
        -59.78993625266729,
        -0.15582684282751913,
        4.883087185713722,
    ],
]


class _Interpolation(diffrax.AbstractLocalInterpolation):
    """Rodas5P's interpolation within a step, of order 4."""

    t0: Any  # type: ignore[misc]
    t1: Any  # type: ignore[misc]
    y0: Array
    y1: Array
    coefficients: Float[Array, "3 n"]

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        if t1 is not None:
            return self.evaluate(t1) - self.evaluate(t0)
        share = (t0 - self.t0) / (self.t1 - self.t0)
        first, second, third = self.coefficients
        correction = (1 - share) * (first + share * (second + share * third))
        return (1 - share) * self.y0 + share * (self.y1 + correction)


class Rodas5P(AbstractFlowSolver):
    """Rodas5P (Steinebach 2023) on a flat vector, with the exact Jacobian.

    Eight stages with one matrix; stiffly accurate and L-stable, so that steps can grow at rest.

    `args(y, s)` returns a solver for $s - J(y)$.
    """

    is_stiff = True
    interpolation_cls: ClassVar[Callable[..., Any]] = _Interpolation

    def controller(
        self, rtol: Array, atol: Array, norm: Callable[[Array], Array]
    ) -> diffrax.PIDController:
        return diffrax.PIDController(rtol=rtol, atol=atol, norm=norm, factormax=6.0, safety=0.9)

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: Any,
        solver_state: Any,
        made_jump: Any,
    ) -> tuple[Any, Any, Dense, Any, Any]:
        width = t1 - t0
        solve = args(y0, 1 / (_GAMMA * width))

        def stage(index: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            _, slope, increments = carry
            increments = increments.at[index].set(solve(slope))
            offset, mixed = (tables[index][:, :, None] * increments[None]).sum(1)
            at = y0 + offset
            return at, terms.vf(t0, at, None) + mixed / width, increments

        # A loop keeps one copy of the stage in the program, which cuts a third off its compilation.
        increments = jnp.zeros((len(_TABLES), *y0.shape), y0.dtype)
        tables = jnp.asarray(_TABLES, y0.dtype)
        y1, slope, increments = jax.lax.fori_loop(
            0, len(_TABLES), stage, (y0, solver_state, increments)
        )
        error = increments[-1]
        error = jnp.where(jnp.isfinite(y1).all(), error, jnp.inf)
        coefficients = (jnp.asarray(_DENSE, y0.dtype)[:, :, None] * increments[None]).sum(1)
        dense = {"y0": y0, "y1": y1, "coefficients": coefficients}
        return y1, error, dense, slope, diffrax.RESULTS.successful
