"""One of two processes that train together: `python -m tests.observe.two_processes RANK FOLDER`.

Prints one JSON object: what it saw.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as distributed
import transformers
from tests.observe.conftest import Repeated, gpt2, trainer
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from saddlescope import observe
from saddlescope.errors import InvalidInput

STEPS = 4


def train(rank: int, out: Path | None) -> list[float]:
    """The losses of a plain loop on a replicated model, each process on rows of its own."""
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(gpt2().train())
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    batches = Repeated().tokens.reshape(2, -1, 4, 16)[rank]
    recorder = None if out is None else observe.Recorder(model, 2, out=out, tokens=batches[-1])
    losses = []
    for tokens in batches[:STEPS]:
        loss = model(input_ids=tokens, labels=tokens).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if recorder is not None:
            recorder.step(loss=loss)
    if recorder is not None:
        recorder.close()
    return losses


def trained_by_hugging_face(folder: Path, *callbacks: observe.HuggingFaceCallback) -> list[float]:
    """The losses that the Trainer logs, of both processes together."""
    torch.manual_seed(0)
    few = {"max_steps": STEPS, "save_strategy": "no", "ddp_backend": "gloo"}
    one = trainer(gpt2(), folder, arguments=few, callbacks=list(callbacks))
    one.train()
    return [entry["loss"] for entry in one.state.log_history if "loss" in entry]


def refused(model: torch.nn.Module, out: Path, rank: int) -> list[str]:
    """What a recorder and the Trainer's callback answer to a sharded model."""
    state = transformers.TrainerState(is_world_process_zero=rank == 0)
    arguments = SimpleNamespace(output_dir=str(out))
    messages = []
    for begin in (
        lambda: observe.Recorder(model, out=out),
        lambda: observe.HuggingFaceCallback().on_train_begin(arguments, state, None, model=model),
    ):
        try:
            begin()
        except InvalidInput as problem:
            messages.append(str(problem))
    return messages


def main() -> None:
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    # What a launcher would say; the processes meet in a file, so that no port is taken.
    ours = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    nowhere = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    os.environ |= {**{name: str(value) for name, value in ours.items()}, **nowhere}
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    callback = observe.HuggingFaceCallback(every=2)
    whole = FullyShardedDataParallel(gpt2(), device_id=torch.device("cpu"))
    sharded = fully_shard(gpt2(), mesh=distributed.init_device_mesh("cpu", (2,)))
    seen = {
        "alone": train(rank, None),
        "watched": train(rank, folder / f"seen-{rank}"),
        "trainer": trained_by_hugging_face(folder / "alone"),
        "trainer_watched": trained_by_hugging_face(folder / "watched", callback),
        "refused": [refused(model, folder / "refused", rank) for model in (whole, sharded)],
    }
    distributed.destroy_process_group()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
