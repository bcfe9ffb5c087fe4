"""What is known of settings before they run: which can share a program, and how long they take."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from saddlescope.attention import AbstractStart
from saddlescope.dynamics._expected import expected_seconds, expected_steps
from saddlescope.dynamics._frame import Frame
from saddlescope.dynamics._many import program_key
from saddlescope.dynamics._padding import can_be_padded
from saddlescope.dynamics._prepared import Prepared
from saddlescope.setting import Setting

__all__ = ["Forecast", "Forecaster", "Frame"]


@dataclass(frozen=True)
class Forecast:
    """What is known of a setting before it runs.

    - `key`: equal for settings that can share a program.
    - `seconds`: about how long one of its rows keeps a core busy.
    - `sizes`: its sizes by name; a frame takes the largest of each.
    """

    key: Hashable
    seconds: float
    sizes: Mapping[str, int]


class Forecaster:
    """Forecasts settings; those that differ only in their start share most of the work.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> flow = ss.GradientFlow(until=200)
    >>> two, three = (ss.Setting(ss.SeparateAttention(heads), task, flow) for heads in (3, 4))
    >>> forecaster = Forecaster()
    >>> forecaster.of(two).sizes["heads"]
    3
    >>> forecaster.of(two).seconds < forecaster.of(three).seconds
    True
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], _SharedForecast] = {}

    def of(self, setting: Setting) -> Forecast:
        """The forecast of a setting; raises on bad input that only a run would find."""
        parts = (setting.model, setting.task, setting.method, setting.record)
        # Prepared settings keep their parts alive, so these ids are not reused.
        key = tuple(map(id, parts))
        if key not in self._known:
            prepared = Prepared(
                Setting(*parts[:3], setting.init, setting.record, setting.seeds[:1])
            )
            self._known[key] = _SharedForecast.of(prepared)
        return self._known[key].forecast(setting.init)


@dataclass(frozen=True, eq=False)
class _SharedForecast:
    """What settings that differ only in their start have in common."""

    prepared: Prepared
    key: Hashable
    sizes: Mapping[str, int]
    seconds: float | None
    """None where it depends on the start, which decides when a run converges."""

    @staticmethod
    def of(prepared: Prepared) -> _SharedForecast:
        rests = prepared.setting.method.converged is not None
        seconds = None if rests else expected_seconds(prepared, expected_steps(prepared))
        return _SharedForecast(prepared, program_key(prepared), _sizes(prepared), seconds)

    def forecast(self, init: AbstractStart) -> Forecast:
        seconds = self.seconds
        if seconds is None:
            seconds = expected_seconds(self.prepared, expected_steps(self.prepared, init))
        return Forecast(self.key, seconds, self.sizes)


def frame_of(sizes: Mapping[str, int], rows: int) -> Frame:
    """The frame for settings of which these are the largest sizes."""
    plain = ("dimension", "points", "drops", "padded")
    inert = tuple((name, size) for name, size in sizes.items() if name not in plain)
    return Frame(inert if sizes["padded"] else (), sizes["dimension"], sizes["points"], rows)


def _sizes(prepared: Prepared) -> dict[str, int]:
    model, marks = prepared.setting.model, prepared.problem.marks
    sizes = {name: getattr(model, name) for name in model.inert_sizes}
    if marks is not None:
        sizes["drops"] = int(marks.middles.shape[-1])
    return {
        **sizes,
        "dimension": prepared.setting.task.dimension,
        "points": len(prepared.grid),
        "padded": int(can_be_padded(prepared)),
    }
