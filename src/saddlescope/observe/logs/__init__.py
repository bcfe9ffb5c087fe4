"""Loss curves in other people's logs: CSV, JSON lines, TensorBoard's files, `trainer_state.json`.

Logs are messy. Rows without a finite loss, steps repeated after a restart, steps out of order and
several runs in one file are handled, and notes with the row numbers say what was done.
"""

from saddlescope.observe.logs._json import history_losses
from saddlescope.observe.logs._log import Log, LossCurve, read_log

__all__ = ["Log", "LossCurve", "history_losses", "read_log"]
