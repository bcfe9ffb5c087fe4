"""A plain PyTorch loop, observed: every head of a small encoder, in three lines.

    python examples/plain_torch.py
    saddlescope observe out/plain

The task is to copy: each sequence is a random half followed by the same half.
"""

from __future__ import annotations

import torch

import saddlescope as ss

TOKENS, WIDTH, HALF = 16, 32, 8


class Model(torch.nn.Module):
    """Two layers of torch's own encoder, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Embedding(TOKENS, WIDTH)
        self.position = torch.nn.Embedding(2 * HALF, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, WIDTH, dropout=0.0, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        read = self.token(tokens) + self.position(torch.arange(length))
        return self.out(self.body(read, mask=mask, is_causal=True))


def draw(count: int) -> torch.Tensor:
    half = torch.randint(0, TOKENS, (count, HALF))
    return torch.cat([half, half], dim=1)


def main(steps: int = 1000, out: str = "out/plain") -> None:
    torch.manual_seed(0)
    model = Model()
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    recorder = ss.observe.Recorder(model, every=steps // 20, out=out, tokens=draw(16))
    for _ in range(steps):
        tokens = draw(32)
        logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].mT, tokens[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        recorder.step(loss=loss)
    recorder.close()
    found = recorder.dataset
    layer, head = divmod(int(found.prefix_matching[-1].values.argmax()), found.sizes["head"])
    print(f"loss {found.loss[0]:.2f} → {found.loss[-1]:.2f}")
    print(f"head {layer}.{head} attends to what came next: {found.prefix_matching[-1].max():.2f}")


if __name__ == "__main__":
    main()
