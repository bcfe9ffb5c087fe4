"""Tasks and data are equal where their fields are."""

from collections.abc import Callable

import numpy as np
import pytest

from saddlescope.task import (
    AbstractData,
    AlignedRegression,
    InContextRegression,
    Prompts,
    TaskPool,
)

LAW = InContextRegression([0.4, 0.3], context_length=31)
MAKERS: dict[str, Callable[[float], AbstractData]] = {
    "law": lambda noise: InContextRegression([0.4, 0.3], 31, label_noise=noise),
    "pool": lambda share: TaskPool.draw([0.4, 0.3], 31, count=2, share=share),
    "aligned": lambda value: AlignedRegression([1.0, value], context_length=8),
    "prompts": lambda value: Prompts(np.full((20, 5, 2), value), np.ones((20, 5))),
    "statistics": lambda seed: LAW.statistics(5, seed=int(100 * seed)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_equal_where_the_fields_are(make: Callable[[float], AbstractData]) -> None:
    assert make(0.5) == make(0.5)
    assert hash(make(0.5)) == hash(make(0.5))
    assert make(0.5) != make(0.25)


def test_a_task_is_no_data_drawn_from_it() -> None:
    assert LAW.sample(3) != LAW
    assert LAW != "task"
