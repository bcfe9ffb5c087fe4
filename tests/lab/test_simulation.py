"""Runs for the page: what is compiled when the lab starts is all that its controls can reach."""

from itertools import product

from saddlescope.attention import AbstractAttention, MergedAttention, SeparateAttention
from saddlescope.dynamics import (
    AbstractMethod,
    GradientDescent,
    GradientFlow,
    Optimiser,
    Record,
)
from saddlescope.lab._bounds import MOST_SEEDS, OPTIMISERS, POINTS, check_setting
from saddlescope.lab._simulation import _one_of_each, _program
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, TaskPool


def test_no_control_reaches_a_program_that_the_warm_up_leaves_out() -> None:
    ready = [_program(setting) for setting in _one_of_each()]
    assert len(set(ready)) == len(ready)
    methods: list[AbstractMethod] = [GradientDescent(0.1, 20_000), GradientFlow(2000.0)]
    methods += [Optimiser(name, 5000, learning_rate=0.1) for name in OPTIMISERS]
    reached = set()
    for method, size, seeds in product(methods, (1, 3, 4, 5, 8), (1, 2, 4, 5, MOST_SEEDS)):
        task = InContextRegression([0.3] * size, 20, label_noise=0.1, inputs="rademacher")
        models: list[AbstractAttention] = [MergedAttention(9), MergedAttention(2)]
        models += [
            SeparateAttention(heads, rank) for heads, rank in ((1, 1), (5, 1), (6, 1), (3, 4))
        ]
        pairs = [(model, task) for model in models]
        if size <= 4:
            pool = TaskPool([0.3] * size, 20, tasks=1, share=0.3)
            for full in (MergedAttention(5, blocks="full"), SeparateAttention(2, blocks="full")):
                pairs.append((full, pool))
        for model, data in pairs:
            setting = Setting(model, data, method, record=Record(POINTS), seeds=seeds)
            check_setting(setting)
            reached.add(_program(setting))
    assert reached == set(ready)
