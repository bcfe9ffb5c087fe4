"""Rows in groups."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.dynamics.methods._ensemble import group_size, map_groups, over_rows, pick


class Simple(eqx.Module):
    """A problem of one number, shared by all rows or one for each."""

    rate: jax.Array
    has_rows: bool = eqx.field(static=True)


@given(st.integers(1, 5000), st.integers(1, 10_000), st.integers(1, 512))
def test_groups_hold_every_seed_with_little_padding(
    seeds: int, weights: int, dimension: int
) -> None:
    size = group_size(seeds, weights, dimension)
    groups = -(-seeds // size)
    assert 1 <= size <= seeds
    # Padding is less than one seed a group.
    assert 0 <= groups * size - seeds < groups


def test_small_ensembles_advance_together() -> None:
    # The Fig. 3 setting: 5 heads of value, key and query at D = 4.
    assert group_size(6, 45, 4) == 6


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("has_rows", [False, True])
def test_groups_are_joined_again(size: int, has_rows: bool) -> None:
    state = {"a": jnp.arange(6.0), "b": jnp.arange(12.0).reshape(6, 2)}
    problem = Simple(jnp.arange(6.0) if has_rows else jnp.asarray(1.0), has_rows)

    def advance(group_problem: Any, group: dict) -> tuple:
        assert group["a"].shape == (size,)
        assert group_problem.rate.shape == ((size,) if has_rows else ())
        return {"a": group["a"] + group_problem.rate, "b": group["b"] * 2}, jnp.asarray(size)

    moved, taken = map_groups(advance, problem, state, size)  # type: ignore[arg-type]
    np.testing.assert_array_equal(moved["a"], np.arange(6) * 2 if has_rows else np.arange(6) + 1)
    np.testing.assert_array_equal(moved["b"], np.arange(12).reshape(6, 2) * 2)
    assert int(taken) == 6


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("has_rows", [False, True])
def test_a_function_of_one_row_is_applied_to_each(size: int, has_rows: bool) -> None:
    tree = {"a": jnp.arange(size * 3.0).reshape(size, 3)}
    problem = Simple(jnp.arange(1.0, size + 1) if has_rows else jnp.asarray(2.0), has_rows)

    def scaled_sum(row_problem: Any, row: dict) -> dict:
        assert row_problem.rate.shape == ()
        return {"a": row_problem.rate * row["a"].sum()}

    result = over_rows(scaled_sum, problem, tree)  # type: ignore[arg-type, type-var]
    rates = np.arange(1, size + 1) if has_rows else 2
    np.testing.assert_array_equal(
        result["a"], rates * np.arange(size * 3.0).reshape(size, 3).sum(1)
    )


def test_pick_selects_seed_by_seed() -> None:
    new = {"a": jnp.ones(3), "b": jnp.ones((3, 2))}
    old = {"a": jnp.zeros(3), "b": jnp.zeros((3, 2))}
    picked = pick(jnp.asarray([True, False, True]), new, old)
    np.testing.assert_array_equal(picked["a"], [1, 0, 1])
    np.testing.assert_array_equal(picked["b"], [[1, 1], [0, 0], [1, 1]])
