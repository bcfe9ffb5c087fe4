"""Spectra of attention circuits from their factors, against those of the dense products.

Both with one BLAS thread, in a process of its own: threads that wait for one another on a busy
machine cost small matrices more than the work itself.
"""

from __future__ import annotations

import json

import numpy as np

from benchmarks.table import Findings, Row
from benchmarks.timing import alternate, fresh_process
from saddlescope.measure import circuits, singular_values

_MODEL, _HEAD, _HEADS = 768, 64, 12  # those of GPT-2

_IN_A_PROCESS = """
import json, os
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
from benchmarks.circuits import timings
print(json.dumps(timings({model}, {heads}, {times})))
"""


def measure(quick: bool) -> Findings:
    """Singular values of QK and OV of all heads of a layer, in float32."""
    model, heads, times = (384, 6, 2) if quick else (_MODEL, _HEADS, 5)
    code = _IN_A_PROCESS.format(model=model, heads=heads, times=times)
    _, printed = fresh_process(code, times=1)
    rows = tuple(
        Row(
            what=f"singular values of {name}, {heads} heads of {_HEAD} in {model}",
            ours=fast,
            baseline=slow,
            against="SVD of the dense product",
            ratio_above=None if quick else 50,
            note=f"they differ by {apart:.0e} of the largest, allowed 1e-5; one thread each",
            holds=apart <= 1e-5,
        )
        for name, fast, slow, apart in json.loads(printed)
    )
    return Findings("Circuits", rows)


def timings(model: int, heads: int, times: int) -> list[tuple[str, float, float, float]]:
    """For each circuit its name, our seconds, those of the dense product and how they differ."""
    rng = np.random.default_rng(0)
    scale = np.float32(model**-0.5)
    query, key, value = scale * rng.standard_normal((3, heads, _HEAD, model), dtype=np.float32)
    output = scale * rng.standard_normal((heads, model, _HEAD), dtype=np.float32)
    found = []
    for name in ("QK", "OV"):

        def factored(name: str = name) -> np.ndarray:
            layer = circuits(query, key, value, output)
            return singular_values(layer.qk if name == "QK" else layer.ov)

        def dense(name: str = name) -> np.ndarray:
            product = query.mT @ key if name == "QK" else output @ value
            return np.linalg.svd(product, compute_uv=False)

        ours, theirs = factored(), dense()
        apart = float(np.abs(ours - theirs[:, :_HEAD]).max() / theirs.max())
        fast, slow = alternate(factored, dense, times)
        found.append((name, fast.best, slow.best, apart))
    return found
