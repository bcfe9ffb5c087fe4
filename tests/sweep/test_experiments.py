"""Experiments with transformers are swept by the same plan."""

from pathlib import Path

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.transformer import InductionExperiment, emergence

BASE = InductionExperiment.quick(
    layers=(1,), vocabulary=8, context=16, d_model=8, steps=6, record=3, seeds=2
)
PLAN = """
keep = ["final_loss", "in_context_score"]

[base]
kind = "induction"
layers = [1]
seeds = 2
vocabulary = 8
context = 16
heads = 2
d_model = 8
positions = "rotary"
steps = 6
learning_rate = 0.01
warmup = 20
record = 3

[axes]
learning_rate = [0.01, 0.02]
"""


def test_a_point_is_what_the_experiment_gives(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    keep = ["final_loss", "in_context_score", "emergence", "final_prefix_matching"]
    sweep = ss.Sweep(BASE, learning_rate=[0.01, 0.02], keep=keep)
    array = sweep.run(tmp_path / "store", workers=0)
    assert array["final_loss"].dims == ("learning_rate", "seed")
    assert (array["status"] == 1).all()
    alone = BASE.run()
    point = array.sel(learning_rate=0.01)
    np.testing.assert_array_equal(point["final_loss"], alone["loss"][0, :, -1])
    np.testing.assert_array_equal(point["in_context_score"], alone["in_context_score"][0])
    np.testing.assert_array_equal(point["step"][0], alone["step"])
    np.testing.assert_array_equal(point["emergence"], emergence(alone)[0])
    heads = alone["prefix_matching"][0, :, -1].max(("layer", "head"))
    np.testing.assert_array_equal(point["final_prefix_matching"], heads)
    assert (array.sel(learning_rate=0.02)["final_loss"] != point["final_loss"]).all()
    # The same plan from a file names the same points.
    read = ss.Sweep.load(path)
    assert read.plan.dimensions == sweep.plan.dimensions
    assert read.plan.subject.to_dict() == sweep.plan.subject.to_dict()


def test_what_cannot_be_swept_is_said() -> None:
    for changes, said in (
        ({"d_model": [8, 9]}, r"heads = 2: .*\(at d_model = 9\)|d_model = 9.*at d_model"),
        (
            {"layers": [1, [1, 2]]},
            r"layers = \[1, 2\]: a point has one depth \(at layers = \[1, 2\]\)",
        ),
        ({"depth": [1]}, r"axes\.depth = 'depth': is no field of the base; there are layers"),
        ({"keep": ["drops"]}, r"keep = 'drops': must be among final_loss"),
        ({"keep": ["final_test_loss"]}, r"keep = 'final_test_loss': must be among"),
    ):
        with pytest.raises(ss.InvalidInput, match=said):
            ss.Sweep(BASE, **changes).estimate()  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInput, match=r"axes\.layers = None: a point has one depth"):
        ss.Sweep(InductionExperiment.quick())
    with pytest.raises(ss.InvalidInput, match=r"base = 3: must be a Setting, or an experiment"):
        ss.Sweep(3)
