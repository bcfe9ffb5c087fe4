"""T18's quadrature: times along the ways of single heads, to about 1e-10."""

import numpy as np
import pytest
from scipy.special import elliprf

from saddlescope.theory.staircase._particle import Particles
from saddlescope.theory.staircase._ways import Ways, soonest_runaways

DRIVE = np.array([0.16, 0.09, 0.04, 0.01])


def random_pairs(count, dimension, seed, values=0.02):
    generator = np.random.default_rng(seed)
    keys, queries = 0.01 * generator.normal(size=(2, count, 1, dimension))
    return values * generator.normal(size=count), keys + queries, keys - queries


def draw(count, drive=DRIVE, seed=0, values=0.02):
    every = np.broadcast_to(drive, (count, drive.size))
    return Particles.of_pairs(*random_pairs(count, drive.size, seed, values), every)[0]


def test_one_mode_is_carlsons_integral():
    """Also where the value is a thousand times the rest, and F is flat for long."""
    generator = np.random.default_rng(1)
    value, key, query = np.abs(generator.normal(size=(3, 500)) * [[1.0], [1e-3], [1e-3]])
    pairs = (np.stack([own])[:, :, None].transpose(1, 0, 2) for own in (key + query, key - query))
    heads, _ = Particles.of_pairs(value, *pairs, np.full((500, 1), 0.3))
    expected = elliprf(value**2, key**2, query**2) / 0.3
    np.testing.assert_allclose(Ways.of(heads).runaway, expected, rtol=1e-10)


@pytest.mark.parametrize("values", [0.002, 0.02, 0.2])
def test_twice_the_panels_change_nothing(values, monkeypatch):
    heads = draw(1000, values=values)
    once = Ways.of(heads)
    monkeypatch.setattr("saddlescope.theory.staircase._ways._WIDEST", 1.0)
    twice = Ways.of(heads)
    assert twice.head.size > 1.5 * once.head.size
    np.testing.assert_allclose(once.runaway, twice.runaway, rtol=2e-10)


def test_a_mode_a_million_times_weaker_changes_next_to_nothing():
    """Though the minimum of F is looked for from where it would have it, very far away."""
    drive = np.array([0.8, 1e-6])
    (one, _), (both, _) = (
        Particles.of_pairs(value, sums[..., :count], differences[..., :count], drives)
        for count, drives in ((1, np.full((500, 1), drive[0])), (2, np.tile(drive, (500, 1))))
        for value, sums, differences in [random_pairs(500, 2, seed=4)]
    )
    np.testing.assert_allclose(Ways.of(both).runaway, Ways.of(one).runaway, rtol=1e-3)


def test_a_head_is_carried_on_as_its_equation_says():
    """v² = F and θ̈ = F′/2: what is after t and after another t is what is after both."""
    heads = draw(400, seed=2)
    way = Ways.of(heads)
    times = np.where(np.isfinite(way.runaway), 0.8 * way.runaway, 1.0)
    step = 1e-4 * times
    (before, speed), (after, _) = way.after(times - step), way.after(times + step)
    np.testing.assert_allclose((after - before) / (2 * step), way.after(times)[1], rtol=1e-4)
    assert speed.shape == (400,)
    np.testing.assert_allclose(way.after(np.zeros(400))[1], heads.value, rtol=1e-7)


def test_the_first_of_all_heads_is_found_by_following_few():
    heads = draw(2000, seed=3)
    every = Ways.of(heads).runaway.reshape(-1, 5)
    np.testing.assert_array_equal(soonest_runaways(heads, len(every)), every.min(1))
    roughly = Ways.of(heads, roughly=True).runaway.reshape(-1, 5)
    np.testing.assert_allclose(roughly, every, rtol=5e-3)
