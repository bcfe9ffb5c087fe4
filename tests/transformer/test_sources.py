"""Sources: their statistics, their truth, and what they refuse."""

import sysconfig
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.transformer import (
    BigramTriggers,
    BytePairs,
    ModularArithmetic,
    Operation,
    RepeatedTokens,
    Text,
)
from saddlescope.transformer.sources.modular import table

KEY = jax.random.key(0)


def test_tokens_repeat_with_their_period() -> None:
    source = RepeatedTokens(50, context=40, shortest=5, longest=20)
    tokens, periods = map(np.asarray, source.batch_with_periods(KEY, 500))
    assert tokens.shape == (500, 41)
    for sequence, period in zip(tokens, periods, strict=True):
        np.testing.assert_array_equal(sequence[period:], sequence[:-period])
    assert set(periods) == set(range(5, 21))


def test_tokens_are_uniform() -> None:
    source = RepeatedTokens(10, context=40, shortest=20, longest=20)
    counts = np.bincount(np.asarray(source.batch(KEY, 2000))[:, :20].ravel(), minlength=10)
    # Each of 40 000 draws; five standard deviations.
    assert np.abs(counts / 40_000 - 0.1).max() < 5 * np.sqrt(0.09 / 40_000)


def test_a_batch_depends_on_its_key_alone() -> None:
    for source in (RepeatedTokens(), BigramTriggers(), Text(__file__, context=16)):
        first, again = source.batch(KEY, 4), jax.jit(lambda s, k: s.batch(k, 4))(source, KEY)
        np.testing.assert_array_equal(first, again)
        other = source.batch(jax.random.key(1), 4)
        assert not np.array_equal(first, other)
        assert np.asarray(first).max() < source.vocabulary
        assert first.shape == (4, source.context + 1)


def test_triggers_have_one_output_in_a_sequence_and_many_over_sequences() -> None:
    source = BigramTriggers(vocabulary=12, context=100, triggers=2)
    tokens, outputs = map(np.asarray, source.batch_with_outputs(KEY, 400))
    for trigger in range(2):
        rows, places = np.nonzero(tokens[:, :-1] == trigger)
        np.testing.assert_array_equal(tokens[rows, places + 1], outputs[rows, trigger])
    assert len(set(outputs.ravel())) == 12


def test_other_tokens_follow_the_bigram_law() -> None:
    source = BigramTriggers(vocabulary=6, context=200, triggers=2, concentration=1)
    tokens = np.asarray(source.batch(KEY, 1000))
    law = np.asarray(source.bigram)
    np.testing.assert_allclose(law.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(law[:, :2].sum(1), 0.2, rtol=1e-5)
    for token in range(2, 6):
        after = tokens[:, 1:][tokens[:, :-1] == token]
        shares = np.bincount(after, minlength=6) / len(after)
        # Tens of thousands of draws; five standard deviations.
        assert np.abs(shares - law[token]).max() < 5 * np.sqrt(0.25 / len(after))


def test_the_first_token_follows_the_stationary_law() -> None:
    source = BigramTriggers(vocabulary=6, context=8, triggers=2, concentration=1)
    law = np.asarray(source.unigram)
    np.testing.assert_allclose(law @ np.asarray(source.bigram), law, atol=1e-6)
    first = np.asarray(source.batch(KEY, 20_000))[:, 0]
    assert np.abs(np.bincount(first, minlength=6) / 20_000 - law).max() < 5 * np.sqrt(0.25 / 20_000)


COMPUTE = {
    "add": lambda a, b, p: (a + b) % p,
    "subtract": lambda a, b, p: (a - b) % p,
    "multiply": lambda a, b, p: a * b % p,
    "divide": lambda a, b, p: next(c for c in range(p) if c * b % p == a),
}


@pytest.mark.parametrize("p", [3, 7, 13])
@pytest.mark.parametrize("operation", Operation)
def test_tables_of_modular_arithmetic_are_true_and_complete(operation: Operation, p: int) -> None:
    rows = table(p, operation).tolist()
    assert all(row[2] == p and row[3] == COMPUTE[operation](row[0], row[1], p) for row in rows)
    low = 1 if operation == "divide" else 0
    assert {(a, b) for a, b, _, _ in rows} == {(a, b) for a in range(p) for b in range(low, p)}
    assert len(rows) == p * (p - low)


def test_pairs_are_trained_on_or_held_out_never_both() -> None:
    source = ModularArithmetic(13, share=0.3)
    train, test = (
        set(map(tuple, np.asarray(part).tolist())) for part in (source.train, source.test)
    )
    assert len(train) == int(0.3 * 169)
    assert len(train) + len(test) == 169
    assert not train & test
    other = ModularArithmetic(13, share=0.3, seed=1)
    assert set(map(tuple, np.asarray(other.train).tolist())) != train


@given(data=st.binary(max_size=200), extra=st.integers(0, 30), other=st.binary(max_size=50))
def test_byte_pairs_come_back_the_same(data: bytes, extra: int, other: bytes) -> None:
    pairs = BytePairs.train(data, 256 + extra)
    for some in (data, other):
        tokens = pairs.encode(some)
        assert pairs.decode(tokens) == some
        assert len(tokens) <= len(some)
        assert tokens.max(initial=0) < pairs.vocabulary


@given(st.integers(1, 40))
def test_a_run_of_one_byte_is_merged_from_the_left(length: int) -> None:
    pairs = BytePairs(((97, 97),))
    whole, rest = divmod(length, 2)
    assert pairs.encode(b"a" * length).tolist() == [256] * whole + [97] * rest


def test_the_most_frequent_pair_is_merged_first() -> None:
    pairs = BytePairs.train(b"xyxyxy ab ab", 258)
    assert [pairs.decode([token]) for token in (256, 257)] == [b"xy", b" ab"[:2]]


def test_byte_pairs_make_a_text_shorter() -> None:
    data = Path(__file__).read_bytes()
    pairs = BytePairs.train(data, 320)
    assert pairs.vocabulary == 320
    assert len(pairs.encode(data)) < 0.7 * len(data)


@pytest.mark.parametrize("encoding", ["bytes", "bpe"])
def test_passages_are_of_the_text_and_the_last_tenth_is_held_out(
    encoding: str, tmp_path: Path
) -> None:
    letters = np.random.default_rng(0).integers(97, 123, size=3000).astype(np.uint8).tobytes()
    (tmp_path / "letters.txt").write_bytes(letters)
    source = Text(tmp_path / "letters.txt", context=12, encoding=encoding, vocabulary=270)
    kept = source.decode(np.asarray(source.train))
    rest = source.decode(np.asarray(source.test))
    assert kept + rest == letters
    assert 0.08 < len(rest) / len(letters) < 0.12
    for sequence in source.batch(KEY, 20):
        assert source.decode(sequence) in kept
    for sequence in source.held_out(KEY, 20):
        assert source.decode(sequence) in rest


def test_a_folder_is_read_whatever_the_order_of_its_files(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "c.txt"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "d.py").write_bytes(b"left out" * 100)
    (tmp_path / "e.bin").write_bytes(b"left out" * 100)
    source = Text(tmp_path, context=8)
    whole = source.decode(np.concatenate([source.train, source.test]))
    assert len(whole) == 300 * 4 + 100
    assert b"left out" not in whole


def test_the_standard_library_is_the_default() -> None:
    source = Text(context=16, most_bytes=20_000)
    assert source.train.shape[0] + source.test.shape[0] == 20_000
    assert b"import" in source.decode(np.asarray(source.train))
    assert Path(sysconfig.get_path("stdlib")).is_dir()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: RepeatedTokens(1), "vocabulary"),
        (lambda: RepeatedTokens(shortest=20, longest=10), "shortest"),
        (lambda: RepeatedTokens(context=32, longest=17, shortest=2), "longest"),
        (lambda: BigramTriggers(vocabulary=4, triggers=4), "triggers"),
        (lambda: BigramTriggers(trigger_share=1), "trigger_share"),
        (lambda: BigramTriggers(concentration=0), "concentration"),
        (lambda: ModularArithmetic(9), "p"),
        (lambda: ModularArithmetic(2), "p"),
        (lambda: ModularArithmetic(7, share=1), "share"),
        (lambda: ModularArithmetic(7, share=0.001), "share"),
        (lambda: ModularArithmetic(7, operation="power"), "operation"),
        (lambda: Text("no such file"), "path"),
        (lambda: Text(__file__, encoding="words"), "encoding"),
        (lambda: Text(__file__, context=100_000), "path"),
        (lambda: BytePairs.train(b"abc", 255), "vocabulary"),
        (lambda: BytePairs.train(b"abc", 100_000), "vocabulary"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(make: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert refused.value.field == field


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must hold files that end in"):
        Text(tmp_path)
