"""GPU baselines for the kernels: plain `vmap` and a hand-written CUDA kernel."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import saddlescope as ss

Weights = dict[str, Any]


def constants(task: ss.InContextRegression, dtype: Any) -> tuple[Any, Any]:
    """The drive and the curvature of T3 in the eigenbasis, [D, D] each."""
    moments = task.moments()
    curvature = np.outer(np.diagonal(moments.summary), np.diagonal(moments.query))
    return moments.drive.astype(dtype), curvature.astype(dtype)


def check_same(ours: Weights, baseline: Weights, tolerance: float) -> None:
    """Raise unless the final weights agree within a tolerance."""
    for name, array in ours.items():
        difference = np.abs(np.asarray(array) - np.asarray(baseline[name])).max()
        if not difference < tolerance:
            raise RuntimeError(f"{name} differs by {difference:.1g} from the baseline's")


def _slope(weights: Weights, drive: Any, curvature: Any) -> Weights:
    """Minus half the gradient of the loss, for one trajectory of rank one."""
    v, k, q = weights["v"], weights["k"][:, 0], weights["q"][:, 0]
    force = drive - curvature * jnp.einsum("h,ha,hb->ab", v, k, q)
    return {
        "v": jnp.einsum("ha,ab,hb->h", k, force, q),
        "k": (v[:, None] * (q @ force.T))[:, None],
        "q": (v[:, None] * (k @ force))[:, None],
    }


@jax.jit
def vmap_descent(weights: Weights, task: tuple[Any, Any], rate: Any, steps: Any) -> Weights:
    """Gradient descent on all trajectories, written the plain way."""

    def descend(start: Weights) -> Weights:
        def step(_: Any, now: Weights) -> Weights:
            return jax.tree.map(lambda a, b: a + 2 * rate * b, now, _slope(now, *task))

        return jax.lax.fori_loop(0, steps, step, start)

    return jax.vmap(descend)(weights)


@jax.jit
def vmap_flow(weights: Weights, task: tuple[Any, Any], until: Any, rtol: Any, atol: Any) -> Weights:
    """Gradient flow of all trajectories by diffrax, written the plain way."""
    term = diffrax.ODETerm(lambda t, now, args: _slope(now, *args))

    def integrate(start: Weights) -> Weights:
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Tsit5(),
            t0=0.0,
            t1=until,
            dt0=None,
            y0=start,
            args=task,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=100_000,
            saveat=diffrax.SaveAt(t1=True),
        )
        return jax.tree.map(lambda leaf: leaf[0], solution.ys)

    return jax.vmap(integrate)(weights)


def hand_kernel(dimension: int, heads: int, dtype: Any) -> Callable[..., float] | None:
    """A CUDA kernel that moves weights in place and returns its seconds; None without `nvcc`."""
    compiler = which("nvcc")
    if compiler is None:
        return None
    real = {"float64": "double", "float32": "float"}[np.dtype(dtype).name]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "hand_kernel.so"
        sizes = (f"-DD={dimension}", f"-DH={heads}", f"-DREAL={real}")
        source = Path(__file__).with_name("hand_kernel.cu")
        options = ("-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC")
        subprocess.run([compiler, *options, *sizes, "-o", library, source], check=True)
        run = ctypes.CDLL(str(library)).run
    run.restype = ctypes.c_double
    run.argtypes = [
        *(np.ctypeslib.ndpointer(dtype, flags="C_CONTIGUOUS") for _ in range(3)),
        ctypes.c_double,
        ctypes.c_int,
        ctypes.c_int,
    ]

    def descend(weights: Any, task: tuple[Any, Any], rate: float, steps: int) -> float:
        drive, curvature = task
        count = len(weights[0])
        seconds = run(weights, np.diagonal(drive).copy(), curvature, 2 * rate, steps, count)
        if seconds < 0:
            raise RuntimeError("the hand-written kernel failed")
        return float(seconds)

    return descend
