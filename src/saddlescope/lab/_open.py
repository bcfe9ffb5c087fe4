"""`open_lab`: the lab from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.setting import Setting

if TYPE_CHECKING:
    from saddlescope.lab.server import Lab


def open_lab(setting: Setting | None = None, *, port: int | None = None) -> Lab:
    """Serve the lab on this machine, open at a setting; in a notebook it shows in the cell.

    `port` is any free one where the usual one is taken. The lab is served until it is closed, or
    until the process ends.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> descent = ss.GradientDescent(learning_rate=.5, steps=5000)
    >>> setting = ss.Setting(ss.SeparateAttention(heads=3), task, descent, seeds=4)
    >>> lab = ss.open_lab(setting.replace(points=401), port=0)  # doctest: +SKIP
    >>> lab.close()  # doctest: +SKIP
    """
    from saddlescope.lab.server import Lab

    return Lab(setting, port=port)
