"""Tiny models of other people's libraries, randomly initialised, and a run of the real Trainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import pytest
import torch
import transformers

transformers.logging.set_verbosity_error()

VOCABULARY, LAYERS = 20, 2
_SIZES = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0}
_NEW = {
    **_SIZES,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "hidden_size": 16,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
}
_GROUPED = {**_NEW, "num_key_value_heads": 2}


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(**_SIZES, n_layer=LAYERS, n_head=4, n_embd=16, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def pythia() -> transformers.PreTrainedModel:
    turning = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    config = transformers.GPTNeoXConfig(**_NEW, rope_parameters=turning)
    return transformers.GPTNeoXForCausalLM(config)


def llama() -> transformers.PreTrainedModel:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED))


def qwen2() -> transformers.PreTrainedModel:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**_GROUPED))


def qwen3() -> transformers.PreTrainedModel:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_GROUPED, head_dim=8))


FAMILIES: dict[str, Callable[[], transformers.PreTrainedModel]] = {
    "gpt2": gpt2,
    "pythia": pythia,
    "llama": llama,
    "qwen2": qwen2,
}


def made(family: str) -> transformers.PreTrainedModel:
    """A model of a family, all of whose weights, biases and gains are random."""
    torch.manual_seed(0)
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


class Repeated(torch.utils.data.Dataset):
    """Random tokens, each sequence twice over."""

    def __init__(self, count: int = 64) -> None:
        half = torch.randint(0, VOCABULARY, (count, 8), generator=torch.Generator().manual_seed(1))
        self.tokens = torch.cat([half, half], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[place], "labels": self.tokens[place]}


def trainer(
    model: transformers.PreTrainedModel,
    folder: Path,
    *,
    arguments: Mapping[str, object] | None = None,
    **options: object,
) -> transformers.Trainer:
    """The real Trainer: 24 steps, a checkpoint at every eighth; `arguments` replace its own."""
    usual = {
        "output_dir": str(folder),
        "max_steps": 24,
        "save_steps": 8,
        "logging_steps": 2,
        "per_device_train_batch_size": 4,
        "learning_rate": 3e-3,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    }
    given = transformers.TrainingArguments(**{**usual, **(arguments or {})})
    return transformers.Trainer(model, given, train_dataset=Repeated(), **options)


@dataclass(frozen=True)
class Trained:
    """A run of the real Trainer that the callback has observed."""

    family: str
    folder: Path


@pytest.fixture(scope="session", params=FAMILIES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A model of every family, trained by the Trainer and observed by the callback."""
    from saddlescope.observe import HuggingFaceCallback

    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    callback = HuggingFaceCallback(every=8, tokens=Repeated(4).tokens)
    trainer(FAMILIES[request.param](), folder, callbacks=[callback]).train()
    return Trained(request.param, folder)
