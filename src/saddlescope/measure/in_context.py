"""Scores of in-context learning in language models, and of the heads behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlescope.checks import is_tensor
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import (
    Array,
    Measured,
    Numbers,
    namespace,
    on_device_of,
    real_arrays,
)
from saddlescope.measure._circuits import Circuits

_EARLY, _LATE = 50, 500  # Olsson et al.: these tokens, counted from 1


def in_context_score(
    token_losses: Numbers, *, early: object = None, late: object = None
) -> Measured:
    """Loss late in the context minus loss early in it (THEORY section 7; Olsson et al. 2022).

    `token_losses[..., position]` gives an array [...]; average over sequences beforehand or
    afterwards. The score is negative where the model makes use of its context. `early` and `late`
    are each a position, counted from 0, or a slice of positions to average over. By default they
    are the 50th and the 500th token (positions 49 and 499). A context that has no 500th token needs
    both: scores of other positions are other numbers.

    >>> losses = np.linspace(4, 2, 512)
    >>> in_context_score(losses).round(3).item()
    -1.761
    >>> in_context_score(losses, early=slice(0, 256), late=slice(256, None)).round(3).item()
    -1.002
    """
    (losses,) = real_arrays(1, token_losses=token_losses)
    length = losses.shape[-1]
    if length < 2:
        raise InvalidInput(
            "token_losses.shape", tuple(losses.shape), "must have 2 positions or more"
        )
    if length < _LATE and (early is None or late is None):
        first, last = max(length // 10, 1) - 1, length - 1
        allowed = (
            f"has no {_LATE}th token: name the positions to compare, such as "
            f"early={first}, late={last}"
        )
        raise InvalidInput("token_losses.shape", tuple(losses.shape), allowed)
    early = _EARLY - 1 if early is None else early
    late = _LATE - 1 if late is None else late
    return _mean_at("late", losses, late) - _mean_at("early", losses, early)


def _mean_at(name: str, losses: Array, where: object) -> Measured:
    length = losses.shape[-1]
    if isinstance(where, slice):
        positions = range(length)[where]
    elif isinstance(where, int | np.integer) and not isinstance(where, bool):
        positions = range(length)[slice(where, where + 1 or None)]
    else:
        raise InvalidInput(name, where, "must be a position or a slice of positions")
    if not positions:
        raise InvalidInput(name, where, f"must hold some of the {length} positions")
    return namespace(losses).mean(losses[..., list(positions)], axis=-1)


def prefix_matching(patterns: Numbers, tokens: Numbers) -> Array:
    """How much each head attends to what followed the same token before (Olsson et al. 2022).

    `patterns[..., head, query, key]` are attention weights, `tokens[..., position]` the sequences
    they were computed on, usually random tokens that are repeated at random distances. From every
    query whose token occurred before, the attention to the tokens right after those occurrences
    (summed, where there were several); its mean over all such queries of all sequences, [head]. An
    induction head has a score near 1. Axes of `patterns` in front of those of `tokens` (layers,
    checkpoints) are kept; a tuple of tensors, one a layer, as models of Hugging Face give it with
    `output_attentions=True`, counts as one array with the layer in front.

    >>> pattern = np.array([[[1., 0, 0], [.5, .5, 0], [.1, .8, .1]]])  # one head
    >>> prefix_matching(pattern, [7, 3, 7]).tolist()  # the last query, the key after the first 7
    [0.8]
    """
    (weights,) = real_arrays(3, patterns=patterns)
    sequences = _tokens(tokens, weights)
    length, batch = sequences.shape[-1], tuple(sequences.shape[:-1])
    shape = tuple(weights.shape)
    if shape[-2:] != (length, length) or shape[:-3][len(shape) - 3 - len(batch) :] != batch:
        sizes = [*map(str, batch), "heads", f"{length} queries", f"{length} keys"]
        allowed = f"must end in ({', '.join(sizes)}), since tokens.shape = {(*batch, length)}"
        raise InvalidInput("patterns.shape", shape, allowed)
    xp = namespace(weights)
    # A key matches where the token before it is the query's; it may be the query itself.
    follows = sequences[..., :, None] == sequences[..., None, :-1]
    follows = follows & on_device_of(weights, np.tri(length, length - 1, -1, bool))
    queries = xp.sum(xp.any(follows, axis=-1))
    if not int(queries):
        raise InvalidInput("tokens", tokens, "must repeat some token within a sequence")
    if bool(xp.any(weights < 0)) or bool(xp.any(xp.sum(weights, axis=-1) > 1.01)):
        raise InvalidInput("patterns", patterns, "must be attention weights, which sum to 1")
    matched = xp.where(follows[..., None, :, :], weights[..., 1:], 0.0)
    over = (*range(-3 - len(batch), -3), -2, -1)
    return xp.sum(matched, axis=over) / queries


def _tokens(tokens: Any, like: Array) -> Any:
    if is_tensor(tokens):
        sequences = tokens.to(like.device) if is_tensor(like) else tokens.detach().cpu().numpy()
    else:
        try:
            sequences = np.asarray(tokens)
        except ValueError:
            raise InvalidInput("tokens", tokens, "must be whole numbers [..., position]") from None
        if sequences.dtype.kind in "iu" and is_tensor(like):
            sequences = on_device_of(like, sequences.astype(np.int64))
    whole = "int" in str(sequences.dtype)
    if not whole or sequences.ndim < 1:
        raise InvalidInput("tokens", tokens, "must be whole numbers [..., position]")
    if sequences.shape[-1] < 2 or 0 in sequences.shape:
        raise InvalidInput("tokens.shape", tuple(sequences.shape), "must have 2 positions or more")
    return sequences


def copying_scores(circuits: object, W_E: Numbers, W_U: Numbers) -> Array:
    r"""Whether each head raises the logits of the tokens it attends to (Elhage et al. 2021).

    $\sum_i\lambda_i/\sum_i|\lambda_i|$ over the eigenvalues of $W_U\,OV\,W_E$ [vocabulary,
    vocabulary]: 1 for a head that copies, -1 for one that suppresses what it reads, near 0 for a
    head that does neither; 0 where OV is zero. The eigenvalues that are not zero are those of the
    matrix $W_V W_E W_U W_O$ [d_head, d_head], and no larger one is decomposed.

    `W_E[d_model, vocabulary]` and `W_U[vocabulary, d_model]` act on column vectors as in the
    formula (the embedding of most libraries is the transposed of `W_E`). Normalisation layers are
    left out: fold their gains into the weights beforehand. The result is [..., head].

    `circuits` are those of `saddlescope.measure.circuits`.

    >>> from saddlescope.measure import circuits
    >>> eye = np.eye(4)
    >>> values = np.stack([eye[:2], -eye[:2]])  # one head copies, the other suppresses
    >>> copying_scores(circuits(values, values, values, np.stack([eye[:, :2]] * 2)), eye, eye)
    array([ 1., -1.])
    """
    if not isinstance(circuits, Circuits):
        raise InvalidInput("circuits", circuits, "must be what saddlescope.measure.circuits gives")
    output, value, embedding, unembedding = real_arrays(
        2, left=circuits.ov.left, right=circuits.ov.right, W_E=W_E, W_U=W_U
    )
    read, written = value.shape[-1], output.shape[-2]
    if embedding.ndim != 2 or embedding.shape[0] != read:
        raise InvalidInput("W_E.shape", tuple(embedding.shape), f"must be ({read}, vocabulary)")
    if unembedding.ndim != 2 or tuple(unembedding.shape) != (embedding.shape[1], written):
        allowed = f"must be {(int(embedding.shape[1]), int(written))}"
        raise InvalidInput("W_U.shape", tuple(unembedding.shape), allowed)
    xp = namespace(value)
    eigenvalues = xp.linalg.eigvals(value @ (embedding @ unembedding) @ output)
    sizes = xp.sum(xp.abs(eigenvalues), axis=-1)
    return xp.sum(xp.real(eigenvalues), axis=-1) / xp.where(sizes > 0, sizes, 1.0)
