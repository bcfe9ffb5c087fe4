"""One shape for settings of many sizes, so that they share a compiled program."""

from __future__ import annotations

from dataclasses import dataclass, fields

from saddlescope.attention import AbstractAttention
from saddlescope.checks import whole_number
from saddlescope.dynamics._frame import Frame
from saddlescope.errors import InvalidInput
from saddlescope.setting import Setting


@dataclass(frozen=True)
class PaddedShape:
    """The sizes that `train_many` pads settings to; all that fit share one program.

    An application that runs one setting after another, such as a web page, compiles only once.

    - `dimension`, `heads`, `rank`: the largest sizes that fit.
    - `seeds`: the number of rows; more seeds take a multiple of it.
    - `points`: the most points of a record.
    - `groups`: the least number of groups that rows advance in, so that as many cores share them.

    >>> import saddlescope as ss
    >>> shape = PaddedShape(dimension=4, heads=5, rank=1, seeds=4, points=50)
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> descent = ss.GradientDescent(learning_rate=.5, steps=100)
    >>> setting = ss.Setting(ss.SeparateAttention(heads=3), task, descent, record=ss.Record(20))
    >>> (run,) = ss.train_many([setting], padded_to=shape)
    >>> run.loss.shape, run.dataset["v"].shape
    ((1, 20), (1, 20, 3))
    """

    dimension: int
    heads: int
    rank: int
    seeds: int
    points: int
    groups: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(
                self, field.name, whole_number(field.name, getattr(self, field.name))
            )

    def frame(self, model: AbstractAttention, seeds: int) -> Frame:
        """The frame for so many seeds of a model."""
        sizes = tuple((name, getattr(self, name)) for name in model.inert_sizes)
        return Frame(sizes, self.dimension, self.points, self.rows(seeds), self.groups)

    def rows(self, seeds: int) -> int:
        """The number of rows that so many seeds take."""
        return -(-seeds // self.seeds) * self.seeds

    def check(self, field: str, setting: Setting, points: int) -> None:
        """Raise if a setting does not fit."""
        sizes = {"dimension": setting.task.dimension, "record.points": points}
        sizes |= {name: getattr(setting.model, name) for name in setting.model.inert_sizes}
        for name, size in sizes.items():
            most = getattr(self, name.rpartition(".")[2])
            if size > most:
                raise InvalidInput(f"{field}.{name}", size, f"padded_to has room for {most}")
