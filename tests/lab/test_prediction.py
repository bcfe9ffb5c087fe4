"""What the page is told before a run."""

import saddlescope as ss
from saddlescope.lab._prediction import law_of_first_drop


def test_a_law_that_puts_the_drop_before_the_start_is_not_drawn() -> None:
    task = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
    setting = ss.Setting(ss.SeparateAttention(heads=5), task, ss.GradientFlow(100.0), seeds=2)
    values, arrays = law_of_first_drop(setting.replace(init_scale=10.0))
    assert values["reason"] == "for starts as large as these the law puts the drop before t = 0"
    assert arrays == {}
    assert law_of_first_drop(setting.replace(init_scale=0.01))[0]["reason"] is None
