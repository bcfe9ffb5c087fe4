"""`HuggingFaceCallback`: a `Recorder` inside Hugging Face's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.observe._extras import require
from saddlescope.observe.recorder import Recorder, place_of

require("transformers")
from transformers import TrainerCallback  # noqa: E402

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class HuggingFaceCallback(TrainerCallback):
    """Measures every head while a Trainer trains: `Trainer(…, callbacks=[HuggingFaceCallback()])`.

    Takes what `Recorder` takes but the model, the start and whether to resume, which the Trainer
    knows. `out` is by default the folder `observed` in the Trainer's output folder. The losses are
    those that the Trainer logs, at the steps at which it does.

    `options` are those of `Recorder`.

    >>> import saddlescope as ss
    >>> callbacks = [ss.observe.HuggingFaceCallback(every=50, out="out/observed")]
    """

    def __init__(
        self, every: object = 100, *, out: str | Path | None = None, **options: object
    ) -> None:
        self._every, self._out, self._options = every, out, options
        self.recorder: Recorder | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: object,
    ) -> None:
        """Begin, or go on where the Trainer was resumed."""
        if not state.is_world_process_zero:
            return
        self._close()
        assert args.output_dir is not None
        done = state.global_step
        out = place_of(self._out, Path(args.output_dir), is_new=done == 0)
        self.recorder = Recorder(
            others["model"],  # type: ignore[arg-type]
            self._every,
            out=out,
            resume=done > 0,
            start=done,
            **self._options,  # type: ignore[arg-type]
        )

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: object,
    ) -> None:
        """Tell of an optimiser's step."""
        if self.recorder is not None:
            self.recorder.step(step=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **others: object,
    ) -> None:
        """Keep the loss that is logged."""
        if self.recorder is not None and logs is not None and "loss" in logs:
            self.recorder.note_loss(state.global_step, float(logs["loss"]))

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: object,
    ) -> None:
        """Record the last step."""
        self._close()

    def _close(self) -> None:
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None
