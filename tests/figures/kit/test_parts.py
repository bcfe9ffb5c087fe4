"""Parts of the setting that a figure holds."""

import pytest

from saddlescope.errors import InvalidInput
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.mainali.mt2 import MT2
from saddlescope.figures.zhang.staircase import STAIRCASE


def test_a_figure_refuses_the_setting_of_another():
    with pytest.raises(InvalidInput, match="must hold a part of kind AlignedRegression") as refused:
        _ = MT2(STAIRCASE).task
    assert "\n" not in str(refused.value)
    assert of_kind(type(STAIRCASE.task), STAIRCASE.task) is STAIRCASE.task
