"""What a figure's numbers depend on: its own module and those that it imports."""

from saddlescope.figures.kit import version
from saddlescope.figures.zhang.fig4 import Figure4


def test_modules_of_the_family_count_however_they_are_imported() -> None:
    names = {f"{path.parent.name}/{path.stem}" for path in version._modules_of(Figure4)}
    # By name, as a module, and through one that is imported as a module.
    assert {"zhang/fig4", "kit/figure", "kit/panels", "zhang/rank_runs", "zhang/staircase"} <= names
    assert "zhang/fig3" not in names
    assert "beyond/depth" not in names
