"""`open_lab`: the lab from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.setting import Setting

if TYPE_CHECKING:
    from saddlescope.lab.server import Lab


def open_lab(
    setting: Setting | None = None, *, port: int | None = None, warm_up: bool = True
) -> Lab:
    """Serve the lab on this machine, open at a setting; in a notebook it shows in the cell.

    Without a `port` it takes the usual one, or any free one if that is taken. The page records at
    most 401 points. With `warm_up`, the lab compiles in the background what its controls can reach.
    It is served until it is closed, or until the process ends.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> descent = ss.GradientDescent(learning_rate=.5, steps=5000)
    >>> setting = ss.Setting(ss.SeparateAttention(heads=3), task, descent, seeds=4)
    >>> lab = ss.open_lab(setting, port=0, warm_up=False)
    >>> lab.address
    'http://127.0.0.1:.../#model=separate&task=in_context_regression&method=descent&heads=3&...'
    >>> lab.close()
    """
    from saddlescope.lab.server import Lab

    return Lab(setting, port=port, warm_up=warm_up)
