"""Damaged checkpoints, records and logs: a line each, no traceback, and the rest is observed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.faults.conftest import Soak

from saddlescope import observe
from saddlescope.errors import InvalidInput


def state(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        f"h.0.attn.{name}.weight": torch.randn(8, columns, generator=generator)
        for name, columns in (("c_attn", 24), ("c_proj", 8))
    }


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """A file that was cut off, or of which some bytes are others."""
    if random.random() < 0.3:
        return content[: random.integers(len(content))]
    changed = bytearray(content)
    for place in random.integers(len(content), size=random.integers(1, 9)):
        changed[place] = random.integers(256)
    return bytes(changed)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_damaged_checkpoint_costs_itself(suffix: str, tmp_path: Path, soak: Soak) -> None:
    place = tmp_path / "run"
    place.mkdir()
    save = torch.save if suffix == "pt" else save_file
    for step in (1, 3):
        save(state(step), place / f"step{step}.{suffix}")
    whole = (place / f"step1.{suffix}").read_bytes()
    for number in range(soak.count(10, 500)):
        (place / f"step2.{suffix}").write_bytes(damaged(whole, soak.random))
        done = observe.observe_checkpoints([place], tmp_path / f"out{number}", heads=2)
        assert {1, 3} <= set(done.observed)
        # Bytes of a weight that changed make another weight: that is all that can be known.
        assert (2 in done.observed) != bool(done.problems), done
        assert all("\n" not in line for line in done.problems)


def test_a_damaged_record_costs_itself(tmp_path: Path, soak: Soak) -> None:
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), every=1, out=tmp_path / "seen") as one:
        one.step(loss=2.0)
        one.step(loss=1.0)
    file = tmp_path / "seen" / "records" / "00000001.safetensors"
    whole = file.read_bytes()
    expected = observe.load(tmp_path / "seen")
    for _ in range(soak.count(20, 1000)):
        content = damaged(whole, soak.random)
        file.write_bytes(content)
        found = observe.load(tmp_path / "seen")
        if content == whole:
            continue
        assert found.step.values.tolist() == [0, 2]
        assert len(found.attrs["problems"]) == 1
        np.testing.assert_array_equal(found.qk_norm[0], expected.qk_norm[0])


def test_a_damaged_event_file_is_read_as_far_as_it_goes(tmp_path: Path, soak: Soak) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(10):
            writer.add_scalar("loss", 1.0 / (step + 1), step)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for _ in range(soak.count(10, 500)):
        file.write_bytes(damaged(whole, soak.random))
        try:
            curves = observe.read_log(file).curves
        except InvalidInput:
            continue
        for curve in curves:
            assert np.isfinite(curve.losses).all()
            assert (np.diff(curve.steps) > 0).all()
