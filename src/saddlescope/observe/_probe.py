"""Scores of a model on a tokenised batch: in-context learning and prefix matching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import InvalidInput
from saddlescope.measure import in_context_score, prefix_matching
from saddlescope.observe._padding import stacked
from saddlescope.observe.snapshot import is_decoder
from saddlescope.observe.weights import natural

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, MultiheadAttention

    from saddlescope.transformer import Decoder

Answer = tuple["Tensor", "Sequence[Tensor] | None"]
"""Logits [batch, position, token] and the patterns [batch, head, query, key] of every layer."""
Ask = Callable[["Module | Decoder", "Tensor"], Answer]

_LONG = 501  # tokens: from here on the 50th and the 500th token are predicted


@dataclass(frozen=True, eq=False)
class Probe:
    """A batch of tokens, how to run a model on it, and which positions to compare."""

    tokens: Tensor
    ask: Ask
    early: object
    late: object

    @classmethod
    def of(cls, tokens: object, ask: Ask | None, early: object, late: object) -> Probe:
        """A batch [batch, position] of whole numbers; positions count predicted tokens from 0."""
        import torch

        try:
            batch = torch.as_tensor(tokens)
        except (TypeError, ValueError, RuntimeError):
            raise InvalidInput(
                "tokens", tokens, "must be whole numbers [batch, position]"
            ) from None
        whole = not (batch.is_floating_point() or batch.is_complex() or batch.dtype == torch.bool)
        if not whole or batch.ndim != 2 or batch.shape[1] < 3 or not batch.shape[0]:
            shown = (str(batch.dtype), tuple(batch.shape))
            allowed = "must be whole numbers [batch, position], 3 positions or more"
            raise InvalidInput("tokens", shown, allowed)
        if early is None and late is None:
            predicted = batch.shape[1] - 1
            early, late = (49, 499) if predicted >= _LONG - 1 else (predicted // 10, predicted - 1)
        elif early is None or late is None:
            raise InvalidInput("early, late", (early, late), "must be given both, or neither")
        if ask is not None and not callable(ask):
            raise InvalidInput("probe", ask, "must be a function of the model and the tokens")
        in_context_score(np.zeros(batch.shape[1] - 1), early=early, late=late)
        return cls(batch.long(), ask or ask_model, early, late)

    @property
    def note(self) -> str:
        """Which positions are compared, in words."""
        return (
            f"in_context_score is the loss of predicted token {self.late} minus that of token "
            f"{self.early}, counted from 0, of {self.tokens.shape[1] - 1}"
        )

    def measure(self, model: Module | Decoder) -> tuple[dict[str, AnyArray], list[str]]:
        """The scores by name, and what could not be measured."""
        import torch

        try:
            parameters: Iterable[Tensor] = getattr(model, "parameters", tuple)()
            device = next((one.device for one in parameters), torch.device("cpu"))
            tokens = self.tokens.to(device)
            logits, patterns = self.ask(model, tokens)
            losses = torch.nn.functional.cross_entropy(
                logits[:, :-1].float().mT, tokens[:, 1:], reduction="none"
            ).mean(0)
        except Exception as problem:
            return {}, [f"tokens: {type(problem).__name__}: {' '.join(str(problem).split())}"]
        scores: dict[str, AnyArray] = {"probe_loss": losses.mean().cpu().numpy()}
        problems = []
        try:
            score = in_context_score(losses, early=self.early, late=self.late)
            scores["in_context_score"] = np.asarray(score.cpu())  # type: ignore[union-attr]
        except Exception as problem:
            problems.append(f"in_context_score: {problem}")
        try:
            if not patterns:
                allowed = "are not known of this model: give a function as `probe`"
                raise InvalidInput("patterns", None, allowed)
            matching = [prefix_matching(one, tokens) for one in patterns]
            rows = {n: np.asarray(one.cpu()) for n, one in enumerate(matching)}  # type: ignore[attr-defined]
            scores["prefix_matching"] = stacked(rows, len(rows))
        except Exception as problem:
            problems.append(f"prefix_matching: {problem}")
        return scores, problems


def ask_model(model: Module | Decoder, tokens: Tensor) -> Answer:
    """Run a model of Hugging Face, TransformerLens, ours, or one of torch's own modules."""
    if is_decoder(model):
        return _ask_decoder(model, tokens)
    return _ask_module(cast("Module", model), tokens)


def _ask_module(model: Module, tokens: Tensor) -> Answer:
    for inner in model.modules():
        if hasattr(inner, "set_attn_implementation") and hasattr(inner, "config"):
            with _eager(inner):
                said = inner(input_ids=tokens, output_attentions=True, use_cache=False)
            return said.logits, said.attentions
        if hasattr(inner, "run_with_cache"):
            logits, cache = inner.run_with_cache(  # type: ignore[operator]
                tokens, names_filter=lambda name: name.endswith("attn.hook_pattern")
            )
            return logits, list(cache.values())
    with _patterns(model) as patterns:
        said = model(tokens)
    said = said[0] if isinstance(said, tuple) else said
    # In the order of the layers' names, as in adapters, not in the order of the calls.
    return getattr(said, "logits", said), [patterns[name] for name in sorted(patterns, key=natural)]


def _ask_decoder(decoder: Decoder, tokens: Tensor) -> Answer:
    import jax.numpy as jnp
    import torch

    read = jnp.asarray(tokens.numpy())
    logits, patterns = (np.array(ask(read)) for ask in (decoder.logits, decoder.patterns))
    return torch.from_numpy(logits), list(torch.from_numpy(patterns).moveaxis(1, 0))


@contextmanager
def _eager(model: Module) -> Iterator[None]:
    """Use the attention that returns its patterns; the fast ones do not."""
    before = model.config._attn_implementation  # type: ignore[union-attr]
    model.set_attn_implementation("eager")  # type: ignore[operator]
    try:
        yield
    finally:
        model.set_attn_implementation(before)  # type: ignore[operator]


@contextmanager
def _patterns(model: Module) -> Iterator[dict[str, Tensor]]:
    """Collect the patterns of every `nn.MultiheadAttention` called meanwhile, by its name."""
    import torch

    patterns: dict[str, Tensor] = {}

    def ask(
        module: MultiheadAttention, given: tuple[object, ...], named: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        return given, {**named, "need_weights": True, "average_attn_weights": False}

    def keep(
        name: str,
        module: MultiheadAttention,
        given: tuple[object, ...],
        result: tuple[Tensor, Tensor],
    ) -> None:
        patterns[name] = result[1]

    hooks = []
    try:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.MultiheadAttention):
                hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
                hooks.append(module.register_forward_hook(partial(keep, name)))
        yield patterns
    finally:
        for hook in hooks:
            hook.remove()
