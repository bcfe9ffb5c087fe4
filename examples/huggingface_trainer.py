"""Hugging Face's Trainer, observed: one callback, and then its checkpoints.

    python examples/huggingface_trainer.py
    saddlescope observe out/trainer/observed

A small GPT-2 with random weights is trained on random sequences, each repeated once.
"""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import saddlescope as ss

TOKENS, HALF = 16, 8


class Twice(torch.utils.data.Dataset):
    """Random tokens, each sequence repeated once."""

    def __init__(self, count: int) -> None:
        half = torch.randint(0, TOKENS, (count, HALF))
        self.tokens = torch.cat([half, half], dim=1)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main(steps: int = 600, out: str = "out/trainer") -> None:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=TOKENS,
        n_positions=2 * HALF,
        n_layer=2,
        n_head=4,
        n_embd=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    arguments = TrainingArguments(
        output_dir=out,
        max_steps=steps,
        save_steps=steps // 4,
        logging_steps=max(steps // 60, 1),
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        report_to=[],
        disable_tqdm=True,
    )
    watch = ss.observe.HuggingFaceCallback(every=steps // 20, tokens=Twice(16).tokens)
    trainer = Trainer(
        GPT2LMHeadModel(config), arguments, train_dataset=Twice(4096), callbacks=[watch]
    )
    trainer.train()
    live = ss.observe.load(f"{out}/observed")
    print(live.qk_effective_rank.isel(step=-1).to_pandas().round(2))

    # The checkpoints that it saved give the same numbers.
    ss.observe.observe_checkpoints([out], f"{out}-checkpoints")
    saved = ss.observe.load(f"{out}-checkpoints")
    both = live.sel(step=saved.step)
    print("largest difference:", float(abs(both.qk_norm - saved.qk_norm).max()))


if __name__ == "__main__":
    main()
