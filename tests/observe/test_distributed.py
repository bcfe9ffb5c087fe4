"""Two real processes: replicated models are watched by the first, sharded ones are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from saddlescope import observe

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and what each process saw."""
    folder = tmp_path_factory.mktemp("distributed")
    command = [sys.executable, "-m", "tests.observe.two_processes"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(folder)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate() for process in processes]
    for process, (_, problem) in zip(processes, said, strict=True):
        assert process.returncode == 0, problem
    return folder, [json.loads(out.splitlines()[-1]) for out, _ in said]


def test_losses_are_the_same_bits_with_and_without_it(run):
    _, seen = run
    for process in seen:
        assert process["watched"] == process["alone"]
        assert process["trainer_watched"] == process["trainer"]
    # Each has rows of its own, and the Trainer logs the mean of both.
    assert seen[0]["alone"] != seen[1]["alone"]
    assert len(seen[0]["trainer"]) == 2


def test_the_process_of_rank_0_writes_and_the_other_nothing(run):
    folder, seen = run
    found = observe.load(folder / "seen-0")
    assert found.step.values.tolist() == [0, 2, 4]
    assert found.layer_name.values.tolist() == ["transformer.h.0", "transformer.h.1"]
    assert found.attrs["problems"] == []
    assert np.isfinite(found.prefix_matching).all()
    np.testing.assert_array_equal(found.loss, seen[0]["watched"])
    assert not (folder / "seen-1").exists()
    trainer = observe.load(folder / "watched" / "observed")
    assert trainer.step.values.tolist() == [0, 2, 4]
    assert trainer.attrs["problems"] == []
    assert not (folder / "watched" / "observed-2").exists()


def test_a_sharded_model_is_refused_in_one_line_by_every_process(run):
    folder, seen = run
    for process in seen:
        # By a recorder and by the Trainer's callback, each; of both kinds of sharding.
        assert [len(messages) for messages in process["refused"]] == [2, 2]
        for messages in process["refused"]:
            for message in messages:
                assert "is sharded over processes" in message
                assert "saddlescope observe" in message
                assert "\n" not in message
    assert not (folder / "refused").exists()
