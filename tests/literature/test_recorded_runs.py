"""Recorded runs of the authors' public code (float32 PyTorch), replayed in float64.

`recorded/*.npz` hold the prompts, the initial weights and the loss every 20 steps. The authors
divide by nothing, softmax over all N+1 tokens, and train all blocks.
"""

from pathlib import Path

import numpy as np

import saddlescope as ss

RECORDED = Path(__file__).parent / "recorded"
DIMENSION = 4


def read(name):
    recorded = np.load(RECORDED / name)
    labels = recorded["data_x"][..., -1].astype(float)
    labels[:, -1] = recorded["data_y"][:, -1, -1]
    return recorded, ss.Prompts(recorded["data_x"][..., :-1].astype(float), labels)


def value_rows(recorded):
    """(ν, v): the last row of each head's value matrix is all that reaches the prediction."""
    heads = int(recorded["H"])
    rows = recorded["init_value.weight"].reshape(heads, DIMENSION + 1, DIMENSION + 1)[:, -1]
    return {"nu": rows[:, :-1], "v": rows[:, -1]}


def replay(model, prompts, weights, recorded):
    steps = recorded["epoch"].astype(float)
    method = ss.GradientDescent(float(recorded["lr"]), int(steps[-1]))
    run = ss.train(model, prompts, weights=weights, method=method, record=steps)
    np.testing.assert_array_equal(run.dataset["step"], steps)
    return np.abs(run.loss[0] - recorded["loss"]), steps


def test_separate_linear_attention():
    """To step 4240 within 1e-4; then rounding decides when the last saddle is left."""
    recorded, prompts = read("separate_rank1.npz")
    shape = (int(recorded["H"]), int(recorded["R"]), DIMENSION + 1)
    keys = recorded["init_key.weight"].reshape(shape)
    queries = recorded["init_query.weight"].reshape(shape)
    weights = {
        **value_rows(recorded),
        "k": keys[..., :-1],
        "kappa": keys[..., -1],
        "q": queries[..., :-1],
    }
    model = ss.SeparateAttention(heads=5, rank=1, blocks="full", normalisation="none")
    error, steps = replay(model, prompts, weights, recorded)
    assert error[steps <= 4240].max() < 1e-4
    assert error[-1] < 1e-5


def test_merged_softmax_attention():
    recorded, prompts = read("softmax_merged.npz")
    heads = int(recorded["H"])
    maps = recorded["init_kq.weight"].reshape(heads, DIMENSION + 1, DIMENSION + 1)
    weights = {
        **value_rows(recorded),
        "U": maps[:, :-1, :-1].swapaxes(1, 2),
        "u": maps[:, :-1, -1],
    }
    model = ss.MergedAttention(
        heads=heads, blocks="full", activation="softmax", normalisation="none"
    )
    error, _ = replay(model, prompts, weights, recorded)
    assert error.max() < 1e-4
