"""The numbers of a seed: fixed bits, a fixed map to normals, alone or among many."""

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

from saddlescope.attention.draws import counted_normals, standard_normals, threefry
from saddlescope.precision import in_float64


def words(*values: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], dtype=np.uint32) for value in values)


# Published with the generator (Random123, kat_vectors).
@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_bits_are_the_published_ones(key, counter, expected) -> None:
    assert threefry(words(*key), words(*counter)) == expected


def test_the_numbers_of_a_seed_are_these() -> None:
    """Whoever changes them changes every run: seeds 0, 1 and 2⁴⁰, streams 0 and 3."""
    drawn = [standard_normals(np.array([0, 1, 2**40]), stream, 2) for stream in (0, 3)]
    expected = [
        [
            [-0.20584213183061426, -0.4826230071622412],
            [0.5357771828190248, -1.574248921571761],
            [-0.1773646855614757, -3.083422771463191],
        ],
        [
            [0.18784403982208853, -0.7548848493809617],
            [-0.36228873443915094, -0.2567113272873488],
            [-0.006636902220439624, -0.04539752608989279],
        ],
    ]
    np.testing.assert_array_max_ulp(np.stack(drawn), np.array(expected), maxulp=4)


def test_a_seed_is_the_same_alone_and_among_many() -> None:
    many = standard_normals(np.arange(20_000), 1, 7)
    for seed in (0, 4_681, 19_999):
        np.testing.assert_array_equal(standard_normals(np.array([seed]), 1, 7)[0], many[seed])
    np.testing.assert_array_equal(standard_normals(np.arange(9), 1, 3), many[:9, :3])


def test_jax_draws_the_same() -> None:
    seeds, places = np.arange(500, dtype=np.uint32)[:, None], np.arange(60, dtype=np.uint32)[None]
    given = (seeds, np.zeros_like(seeds), places, np.full_like(places, 2))
    compiled = in_float64(jax.jit(counted_normals))(*given)
    np.testing.assert_array_max_ulp(np.asarray(compiled), counted_normals(*given), maxulp=4)


def test_the_map_is_the_inverse_of_the_normal_distribution() -> None:
    drawn = standard_normals(np.arange(1000), 0, 1000)
    key = np.arange(1000, dtype=np.uint32)[:, None]
    first, second = threefry((key, np.zeros_like(key)), (key.T, np.zeros_like(key.T)))
    bits = (first >> 6).astype(np.uint64) << np.uint64(26) | (second >> 6)
    probability = (bits.astype(np.float64) + 0.5) * 2.0**-52
    # The smaller side of a probability has the more digits.
    upper = probability > 0.5
    expected = scipy.special.ndtri(np.where(upper, 1 - probability, probability))
    np.testing.assert_allclose(drawn, np.where(upper, -expected, expected), rtol=1e-10)


def test_the_numbers_are_independent_and_normal() -> None:
    drawn = standard_normals(np.arange(300), 0, 300)
    assert scipy.stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    # Neighbouring seeds, places and streams, against the spread of a mean of so many products.
    spread = 5 / np.sqrt(drawn.size)
    assert abs((drawn[1:] * drawn[:-1]).mean()) < spread
    assert abs((drawn[:, 1:] * drawn[:, :-1]).mean()) < spread
    assert abs((drawn * standard_normals(np.arange(300), 1, 300)).mean()) < spread
