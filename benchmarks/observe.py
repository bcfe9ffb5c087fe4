"""Observing other models: the cost to a live run, and the time per checkpoint.

Each in a fresh process with two threads.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.table import Findings, Row
from benchmarks.timing import fresh_process

_BATCH, _LENGTH, _EVERY, _VOCABULARY = 8, 128, 100, 2500
_PYTHIA = {"layers": 24, "heads": 16, "d_model": 1024, "d_mlp": 4096}
_ALLOWED_SHARE = 0.02
_ALLOWED_SECONDS = 10.0

_IN_A_PROCESS = """
import json, os
os.environ.update(OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2", MKL_NUM_THREADS="2")
import torch
torch.set_num_threads(2)
from benchmarks import observe
print(json.dumps(observe.{function}({quick})))
"""


def measure(quick: bool) -> Findings:
    """A recorder's share of a run, and seconds per checkpoint against dense decompositions."""
    live = _measured("live", quick)
    step, record, parameters, same = live
    share = record / (_EVERY * step)
    rows = [
        Row(
            what=f"a record of a GPT-2 of {parameters / 1e6:.0f} million parameters",
            ours=record,
            baseline=None,
            against="",
            seconds_below=None if quick else _ALLOWED_SHARE * _EVERY * step,
            note=(
                f"{100 * share:.2f} % of the run at every={_EVERY}, allowed "
                f"{100 * _ALLOWED_SHARE:.0f} %: a step on a batch of {_BATCH} × {_LENGTH} takes "
                f"{step:.3g} s; losses with and without are "
                f"{'the same bits' if same else 'DIFFERENT'}"
            ),
            holds=same,
        )
    ]
    ours, dense, difference, heads = _measured("checkpoint", quick)
    rows.append(
        Row(
            what=f"a checkpoint of {heads} heads in {_PYTHIA['d_model']}",
            ours=ours,
            baseline=dense,
            against="SVD of the dense products alone",
            seconds_below=None if quick else _ALLOWED_SECONDS,
            note=f"singular values differ by {difference:.0e} of the largest, allowed 1e-5",
            holds=difference <= 1e-5,
        )
    )
    return Findings("Observe", tuple(rows))


def _measured(function: str, quick: bool) -> list[float]:
    code = _IN_A_PROCESS.format(function=function, quick=quick)
    _, printed = fresh_process(code, times=1)
    return json.loads(printed.splitlines()[-1])


def live(quick: bool) -> tuple[float, float, int, bool]:
    """Seconds per step and per record, the number of parameters, and whether losses are unchanged.

    Medians; a record is timed by itself, since the difference of two runs would drown in noise.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    from saddlescope.observe import Recorder

    logging.set_verbosity_error()
    layers, steps = (2, 2) if quick else (5, 10)
    config = GPT2Config(
        vocab_size=_VOCABULARY,
        n_positions=_LENGTH,
        n_layer=layers,
        n_head=8,
        n_embd=384,
        bos_token_id=0,
        eos_token_id=0,
    )

    def train(folder: str | None) -> tuple[list[float], list[float], list[float], int]:
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config)
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        recorder = None if folder is None else Recorder(model, every=1, out=folder)
        losses, stepping, recording = [], [], []
        for _ in range(steps):
            began = time.perf_counter()
            tokens = torch.randint(0, _VOCABULARY, (_BATCH, _LENGTH))
            loss = model(tokens, labels=tokens).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            done = time.perf_counter()
            if recorder is not None:
                recorder.step(loss=loss)
            stepping.append(done - began)
            recording.append(time.perf_counter() - done)
        if recorder is not None:
            recorder.close()
        size = sum(parameter.numel() for parameter in model.parameters())
        return losses, stepping, recording, size

    with tempfile.TemporaryDirectory() as folder:
        watched, stepping, recording, size = train(os.path.join(folder, "seen"))
    alone, *_ = train(None)
    return float(np.median(stepping)), float(np.median(recording)), size, watched == alone


def checkpoint(quick: bool) -> tuple[float, float, float, int]:
    """Seconds per checkpoint, ours and dense, the difference of the spectra, and the heads."""
    import torch
    from safetensors.torch import save_file

    from saddlescope.observe import load, observe_checkpoints

    layers, heads, wide = (2 if quick else _PYTHIA["layers"]), _PYTHIA["heads"], _PYTHIA["d_model"]
    torch.manual_seed(0)
    state = {}
    for layer in range(layers):
        name = f"gpt_neox.layers.{layer}"
        state[f"{name}.attention.query_key_value.weight"] = 0.02 * torch.randn(3 * wide, wide)
        state[f"{name}.attention.dense.weight"] = 0.02 * torch.randn(wide, wide)
        # Not needed, so not read.
        for side in ("dense_h_to_4h", "dense_4h_to_h"):
            state[f"{name}.mlp.{side}.weight"] = torch.zeros(_PYTHIA["d_mlp"], wide)
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for step in range(2):
            save_file(state, os.path.join(folder, f"step{step}.safetensors"))
            began = time.perf_counter()
            observe_checkpoints([Path(folder)], Path(folder) / "out", heads=heads)
            seconds.append(time.perf_counter() - began)
            state = {name: 1.1 * weight for name, weight in state.items()}
        spectrum = load(Path(folder) / "out").qk_spectrum.values[0]
    fused = (state["gpt_neox.layers.0.attention.query_key_value.weight"] / 1.21).view(
        heads, 3, -1, wide
    )
    began = time.perf_counter()
    values = torch.linalg.svdvals(fused[:2, 0].mT @ fused[:2, 1]).numpy()
    # Two heads stand for all: QK and OV of every head cost as much.
    dense = (time.perf_counter() - began) * layers * heads
    ours = spectrum[0, :2]
    difference = float(np.abs(ours - values[:, : ours.shape[1]]).max() / values.max())
    # The second checkpoint includes the drift, and nothing is left to import.
    return seconds[1], dense, difference, layers * heads
