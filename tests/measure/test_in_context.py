"""In-context scores against direct sums over positions, tokens and eigenvalues."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.measure import circuits, copying_scores, in_context_score, prefix_matching


def test_the_default_is_the_fiftieth_and_the_five_hundredth_token():
    losses = np.random.default_rng(0).uniform(1, 5, (3, 512))
    np.testing.assert_array_equal(in_context_score(losses), losses[:, 499] - losses[:, 49])


@pytest.mark.parametrize("options", [{}, {"early": 3}, {"late": 400}])
def test_a_context_without_a_500th_token_needs_both_positions(options):
    losses = np.random.default_rng(1).uniform(1, 5, 499)
    with pytest.raises(InvalidInput, match=r"has no 500th token: .* early=48, late=498") as caught:
        in_context_score(losses, **options)
    assert caught.value.field == "token_losses.shape"
    assert in_context_score(losses, early=48, late=498) == losses[498] - losses[48]


def test_positions_and_slices():
    losses = np.random.default_rng(2).uniform(1, 5, (2, 20))
    scores = in_context_score(losses, early=slice(2, 6), late=-1)
    np.testing.assert_allclose(scores, losses[:, -1] - losses[:, 2:6].mean(axis=1))
    tensor = torch.asarray(losses).bfloat16()
    scores = in_context_score(tensor, early=0, late=slice(-4, None))
    assert scores.dtype == torch.float32
    expected = tensor[:, -4:].float().mean(axis=1) - tensor[:, 0].float()
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize(
    ("losses", "options", "field"),
    [
        (np.ones(1), {}, "token_losses.shape"),
        (1.0, {}, "token_losses.shape"),
        (np.array([1.0, np.nan]), {}, "token_losses"),
        (np.ones(9), {"early": 9}, "early"),
        (np.ones(9), {"late": -10}, "late"),
        (np.ones(9), {"late": slice(4, 4)}, "late"),
        (np.ones(9), {"late": 1.5}, "late"),
        (np.ones(9), {"early": "first"}, "early"),
    ],
)
def test_bad_losses_and_positions(losses, options, field):
    with pytest.raises(InvalidInput) as caught:
        in_context_score(losses, **{"early": 0, "late": -1, **options})
    assert caught.value.field == field


def direct_prefix_matching(patterns, tokens):
    """Query by query, for patterns [batch, head, query, key]."""
    total, queries = np.zeros(patterns.shape[1]), 0
    for sequence, pattern in zip(tokens, patterns, strict=True):
        for i, token in enumerate(sequence):
            earlier = [j for j in range(i) if sequence[j] == token]
            if earlier:
                queries += 1
                total += sum(pattern[:, i, j + 1] for j in earlier)
    return total / queries


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 4))
def test_prefix_matching_is_a_mean_over_queries(seed, length, vocabulary):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, vocabulary, (3, length))
    tokens[0, 1] = tokens[0, 0]
    patterns = np.tril(rng.uniform(size=(3, 2, length, length)))
    patterns /= patterns.sum(axis=-1, keepdims=True)
    expected = direct_prefix_matching(patterns, tokens)
    np.testing.assert_allclose(prefix_matching(patterns, tokens), expected, rtol=1e-12)


def test_a_perfect_induction_head_and_a_head_that_looks_back_one_token():
    period, rng = 7, np.random.default_rng(0)
    tokens = np.tile(rng.permutation(100)[:period], 3)
    patterns = np.zeros((2, 21, 21))
    for query in range(21):
        patterns[0, query, max(query - period + 1, 0)] = 1.0
        patterns[1, query, max(query - 1, 0)] = 1.0
    np.testing.assert_array_equal(prefix_matching(patterns, tokens), [1.0, 0.0])


def test_axes_before_the_batch_are_kept():
    rng = np.random.default_rng(1)
    tokens = np.tile(rng.integers(0, 50, (4, 6)), 2)
    patterns = rng.uniform(size=(3, 4, 5, 12, 12))
    patterns = patterns / patterns.sum(-1, keepdims=True)
    scores = prefix_matching(patterns, tokens)
    assert scores.shape == (3, 5)
    for layer in range(3):
        expected = direct_prefix_matching(patterns[layer], tokens)
        np.testing.assert_allclose(scores[layer], expected, rtol=1e-12)
    tensors = prefix_matching(torch.asarray(patterns), tokens)
    np.testing.assert_allclose(tensors, scores, rtol=1e-12)
    np.testing.assert_allclose(prefix_matching(patterns, torch.asarray(tokens)), scores, rtol=1e-12)
    half = prefix_matching(torch.asarray(patterns).half(), torch.asarray(tokens))
    assert half.dtype == torch.float32
    np.testing.assert_allclose(half, scores, rtol=1e-3)


@pytest.mark.parametrize(
    ("patterns", "tokens", "field"),
    [
        (np.ones((2, 3, 3)), [1, 2, 3], "tokens"),
        (np.ones((2, 3, 3)), [1.5, 2.0, 1.5], "tokens"),
        (np.ones((2, 3, 3)), 1, "tokens"),
        (np.ones((2, 1, 1)), [1], "tokens.shape"),
        (np.ones((2, 3, 3)), [1, 1], "patterns.shape"),
        (np.ones((2, 2, 3)), [1, 1, 1], "patterns.shape"),
        (np.ones((2, 3, 3)), [[1, 1, 1], [1, 1, 1]], "patterns.shape"),
        (np.ones((4, 2, 3, 3)), [[1, 1, 1], [1, 1, 1]], "patterns.shape"),
        (np.ones((3, 3)), [1, 1, 1], "patterns.shape"),
        (np.full((2, 3, 3), np.nan), [1, 1, 1], "patterns"),
    ],
)
def test_patterns_that_do_not_fit_their_tokens(patterns, tokens, field):
    with pytest.raises(InvalidInput) as caught:
        prefix_matching(patterns, tokens)
    assert caught.value.field == field


def head_weights(heads=5, size=3, model=8, vocabulary=20):
    rng = np.random.default_rng(5)
    query, key, value = rng.standard_normal((3, 2, heads, size, model))
    output = rng.standard_normal((2, heads, model, size))
    embedding = rng.standard_normal((model, vocabulary))
    return (query, key, value, output), embedding, rng.standard_normal((vocabulary, model))


def test_copying_is_the_positivity_of_the_whole_circuit():
    weights, embedding, unembedding = head_weights()
    scores = copying_scores(circuits(*weights), embedding, unembedding)
    whole = unembedding @ (weights[3] @ weights[2]) @ embedding
    eigenvalues = np.linalg.eigvals(whole)
    expected = eigenvalues.sum(axis=-1).real / np.abs(eigenvalues).sum(axis=-1)
    assert scores.shape == (2, 5)
    # The eigenvalues that should be zero are some 1e-14 of the others, and there are 17 of them.
    np.testing.assert_allclose(scores, expected, atol=1e-10)


def test_heads_that_copy_suppress_or_do_nothing():
    rng = np.random.default_rng(6)
    embedding, read = rng.standard_normal((8, 30)), rng.standard_normal((3, 8))
    value = np.stack([read, -read, 0 * read])
    output = np.stack([read.T] * 3)
    scores = copying_scores(circuits(value, value, value, output), embedding, embedding.T)
    np.testing.assert_allclose(scores, [1, -1, 0], atol=1e-12)


def test_copying_scores_of_tensors():
    weights, embedding, unembedding = head_weights()
    expected = copying_scores(circuits(*weights), embedding, unembedding)
    tensors = [torch.asarray(weight).float() for weight in weights]
    scores = copying_scores(
        circuits(*tensors), torch.asarray(embedding).float(), torch.asarray(unembedding).float()
    )
    assert scores.dtype == torch.float32
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("embedding", "unembedding", "field"),
    [
        (np.ones((20, 8)), np.ones((20, 8)), "W_E.shape"),
        (np.ones((8, 20)), np.ones((8, 20)), "W_U.shape"),
        (np.ones((8, 20)), np.full((20, 8), np.nan), "W_U"),
        (np.ones(8), np.ones((20, 8)), "W_E.shape"),
    ],
)
def test_embeddings_that_do_not_fit(embedding, unembedding, field):
    with pytest.raises(InvalidInput) as caught:
        copying_scores(circuits(*head_weights()[0]), embedding, unembedding)
    assert caught.value.field == field


def test_copying_needs_circuits():
    with pytest.raises(InvalidInput, match="circuits"):
        copying_scores(np.ones((3, 3)), np.ones((3, 3)), np.ones((3, 3)))


def test_a_tuple_of_attentions_that_require_gradients():
    """What models of Hugging Face give with `output_attentions=True`: a tensor a layer."""
    tokens = torch.tensor([[4, 1, 4, 1], [2, 2, 0, 2]])
    generator = torch.Generator().manual_seed(0)
    layers = torch.rand(3, 2, 5, 4, 4, generator=generator).tril()
    layers = (layers / layers.sum(-1, keepdim=True)).requires_grad_()
    scores = prefix_matching(tuple(layers), tokens)
    assert scores.shape == (3, 5)
    assert not scores.requires_grad
    torch.testing.assert_close(scores, prefix_matching(layers.detach(), tokens))
    with pytest.raises(InvalidInput, match="must be tensors of one shape, each of them there"):
        prefix_matching((layers[0], None), tokens)


def test_a_wrong_shape_of_patterns_is_told_in_words():
    with pytest.raises(InvalidInput) as caught:
        prefix_matching(np.ones((2, 3, 3)), [[1, 1, 1], [1, 1, 1]])
    assert str(caught.value) == (
        "patterns.shape = (2, 3, 3): must end in (2, heads, 3 queries, 3 keys), "
        "since tokens.shape = (2, 3)"
    )
