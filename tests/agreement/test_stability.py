"""T21 against training: descent rests below the stable learning rate, and leaves above it."""

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.attention import GivenStart
from saddlescope.theory import fixed_points, minimal_norm_weights, staircase_sharpness

PAPER = ss.InContextRegression([0.4, 0.3], context_length=31)
NARROW = ss.InContextRegression([1.0, 0.02], context_length=1000)
STEPS = 1500


def beside(model, task, subset, share):
    """Descent at a share of the stable rate, from 1e-4 beside the heads that M(S) uses."""
    found = staircase_sharpness(model, task)
    rate = found.stable_learning_rates[found.subsets.index(subset)]
    generator = np.random.default_rng(1)
    weights = {}
    for name, array in minimal_norm_weights(model, task, subset).items():
        used = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True) > 0
        weights[name] = array + 1e-4 * used * generator.standard_normal(array.shape)
    descent = ss.GradientDescent(share * rate, STEPS)
    start = GivenStart({name: array[None] for name, array in weights.items()}, (0,))
    return ss.Setting(model, task, descent, start, record=ss.Record(points=STEPS + 1))


def excess(run, model, subset):
    """How far the loss is from that of M(S), step by step."""
    level = fixed_points(run.setting.task, model=model).at(subset).loss
    return np.abs(run.loss[0] - level)


@pytest.mark.parametrize(
    "cases",
    [
        [
            (ss.SeparateAttention(2), PAPER, (0,)),
            (ss.SeparateAttention(2), PAPER, (0, 1)),
            (ss.SeparateAttention(2), NARROW, (0, 1)),
            (ss.SeparateAttention(1, rank=2), PAPER, (0, 1)),
            (ss.SeparateAttention(2, normalisation="none"), PAPER, (0, 1)),
        ],
        [(ss.MergedAttention(2), PAPER, (0, 1)), (ss.MergedAttention(2, "none"), PAPER, (0, 1))],
    ],
    ids=["separate", "merged"],
)
def test_descent_rests_below_the_stable_rate_and_leaves_above(cases):
    rows = [(case, share) for case in cases for share in (0.995, 1.005)]
    runs = ss.train_many([beside(*case, share) for case, share in rows])
    for run, ((model, _, subset), share) in zip(runs, rows, strict=True):
        course = excess(run, model, subset)
        # Along the sharpest direction a distance grows by 2·share − 1 in a step, and the loss by
        # its square: 4e-7 of it is left after 750 steps, or it has outgrown the rest.
        late = course[-STEPS // 2 :].max() / course[0]
        assert late < 1e-3 if share < 1 else late > 10
