"""`LightningCallback`: a `Recorder` inside Lightning's Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.observe._callback import AbstractRecorderCallback
from saddlescope.observe._extras import require

require("lightning")
from lightning.pytorch import Callback  # noqa: E402

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer
    from torch import Tensor


class LightningCallback(AbstractRecorderCallback, Callback):
    """Measures every head while a Trainer fits: `Trainer(…, callbacks=[LightningCallback()])`.

    `options` are those of `Recorder`, except the model, `start` and `resume`, which the Trainer
    knows. `out` is by default the folder `observed` in the Trainer's folder. Steps are the
    optimiser's; where batches are accumulated, the loss of a step is that of its last batch.

    >>> import saddlescope as ss
    >>> callbacks = [ss.observe.LightningCallback(every=50, out="out/observed")]
    """

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start, or continue where a checkpoint was restored."""
        self._last = trainer.global_step
        folder = Path(trainer.default_root_dir)
        self._begin(pl_module, folder, done=self._last, is_first=trainer.is_global_zero)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, Tensor] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Report an optimiser step, if the batch completed one."""
        if self.recorder is None or trainer.global_step == self._last:
            return
        self._last = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        self.recorder.step(loss, step=trainer.global_step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the last step."""
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Record the step at which training broke off."""
        self._close()
