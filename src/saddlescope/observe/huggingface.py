"""`HuggingFaceCallback`: a `Recorder` inside Hugging Face's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.observe._callback import AbstractRecorderCallback
from saddlescope.observe._extras import require

require("transformers")
from transformers import TrainerCallback  # noqa: E402

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class HuggingFaceCallback(AbstractRecorderCallback, TrainerCallback):
    """Measures every head while a Trainer trains: `Trainer(…, callbacks=[HuggingFaceCallback()])`.

    `options` are those of `Recorder`, except the model, `start` and `resume`, which the Trainer
    knows. `out` is by default the folder `observed` in the Trainer's output folder. The losses are
    those that the Trainer logs, at the steps at which it logs them.

    >>> import saddlescope as ss
    >>> callbacks = [ss.observe.HuggingFaceCallback(every=50, out="out/observed")]
    """

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: object,
    ) -> None:
        """Start, or continue where the Trainer was resumed."""
        assert args.output_dir is not None
        self._begin(
            others["model"],  # type: ignore[arg-type]
            Path(args.output_dir),
            done=state.global_step,
            is_first=state.is_world_process_zero,
        )

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: object,
    ) -> None:
        """Report an optimiser step."""
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
