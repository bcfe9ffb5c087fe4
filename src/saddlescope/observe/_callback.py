"""What the callbacks of all trainers share: the recorder of the current run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.observe.recorder import Recorder, output_folder, readable

if TYPE_CHECKING:
    from torch.nn import Module


class AbstractRecorderCallback:
    """Starts a recorder when a trainer starts, and closes it when the trainer ends."""

    def __init__(
        self, every: object = 100, *, out: str | Path | None = None, **options: object
    ) -> None:
        super().__init__()
        self._every, self._out, self._options = every, out, options
        self.recorder: Recorder | None = None

    def _begin(self, model: Module, folder: Path, *, done: int, is_first: bool) -> None:
        """Start after `done` steps, in the process of rank 0; `folder` is the trainer's."""
        self._close()
        if not is_first:
            # Refused in every process: one that continued alone would wait for the others.
            readable(model, self._options.get("heads"), self._options.get("adapter"))
            return
        self.recorder = Recorder(
            model,
            self._every,
            out=output_folder(self._out, folder, is_new=done == 0),
            resume=done > 0,
            start=done,
            **self._options,  # type: ignore[arg-type]
        )

    def _close(self) -> None:
        """Record the last step."""
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None
