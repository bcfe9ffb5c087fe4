"""Spectra of attention circuits from their factors, against those of the dense products.

Both run with one BLAS thread in a fresh process: on a busy machine, waiting for other threads costs
small matrices more than the work itself.
"""

from __future__ import annotations

import json

import numpy as np

from benchmarks.table import Findings, Row
from benchmarks.timing import alternate, fresh_process
from saddlescope.measure import circuits, singular_values

_MODEL, _HEAD, _HEADS = 768, 64, 12  # GPT-2's

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
            note=f"they differ by {difference:.0e} of the largest, allowed 1e-5; one thread each",
            holds=difference <= 1e-5,
        )
        for name, fast, slow, difference in json.loads(printed)
    )
    return Findings("Circuits", rows)


def timings(model: int, heads: int, times: int) -> list[tuple[str, float, float, float]]:
    """Each circuit's name, our seconds, the dense product's, and the difference of the spectra."""
    rng = np.random.default_rng(0)
    scale = np.float32(model**-0.5)
    query, key, value = scale * rng.standard_normal((3, heads, _HEAD, model), dtype=np.float32)
    output = scale * rng.standard_normal((heads, model, _HEAD), dtype=np.float32)
    results = []
    for name in ("QK", "OV"):

        def factored(name: str = name) -> np.ndarray:
            layer = circuits(query, key, value, output)
            return singular_values(layer.qk if name == "QK" else layer.ov)

        def dense(name: str = name) -> np.ndarray:
            product = query.mT @ key if name == "QK" else output @ value
            return np.linalg.svd(product, compute_uv=False)

        ours, baseline = factored(), dense()
        difference = float(np.abs(ours - baseline[:, :_HEAD]).max() / baseline.max())
        fast, slow = alternate(factored, dense, times)
        results.append((name, fast.best, slow.best, difference))
    return results
