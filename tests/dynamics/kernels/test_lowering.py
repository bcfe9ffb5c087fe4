"""The kernels as a GPU's compiler is given them: what Triton has no word for is noticed here."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import saddlescope as ss
from saddlescope.dynamics import _prepared
from saddlescope.dynamics._job import Job
from saddlescope.dynamics.kernels import _descent, _flow
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.precision import within

DESCENT = ss.GradientDescent(learning_rate=0.1, steps=100)
SINGLE = ss.GradientDescent(learning_rate=0.1, steps=100, precision="float32")
FLOW = ss.GradientFlow(until=100.0)
IN_MEMORY = Kernel(1, 128, 4, in_memory=True)


# By JAX from 0.11 on, where it still compiles them.
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("advance", "method", "kernel", "dimension"),
    [
        (_descent._advance, DESCENT, Kernel(2, 64, 2), 2),
        (_descent._advance, SINGLE, IN_MEMORY, 5),
        (_flow._advance, FLOW, Kernel(4, 8, 1), 2),
    ],
    ids=["descent", "descent with heads in memory", "flow"],
)
@pytest.mark.parametrize("keep", ["trajectory", "drops"])
def test_it_is_lowered_for_a_gpu(
    advance: Any,
    method: ss.AbstractMethod,
    kernel: Kernel,
    dimension: int,
    keep: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_prepared, "choose_kernel", lambda *_: kernel)
    task = ss.InContextRegression(f"power:{dimension}:1", context_length=31)
    record = ss.Record(points=3, keep=keep)
    job = Job(ss.Setting(ss.SeparateAttention(heads=3), task, method, seeds=64, record=record))
    problem, state = job.rows._problems[0], job.begin()[0]
    with within(method.precision):
        traced = jax.jit(advance.__wrapped__).trace(problem, state, jnp.asarray(100))
        lowered = traced.lower(lowering_platforms=("cuda",))
    assert "triton" in lowered.as_text()
