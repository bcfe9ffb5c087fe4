"""Compiled programs: counted once, with those options that this XLA knows and no user has set."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.running import programs
from saddlescope.running.programs import compiled, compiled_in_haste

LEVEL, EMITTERS = ("xla_backend_optimization_level", 0), ("xla_cpu_use_fusion_emitters", False)


@pytest.fixture(autouse=True)
def _own_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    programs._options_taken.cache_clear()
    yield
    programs._options_taken.cache_clear()
    jax.config.update("jax_disable_most_optimizations", before)


def test_what_is_compiled_in_haste_computes_the_same() -> None:
    def norms(rows: jax.Array) -> jax.Array:
        return jnp.sqrt((rows**2).sum(axis=-1))

    rows = jnp.arange(12.0).reshape(3, 4)
    assert programs._options_taken(programs._IN_HASTE)
    assert programs._options_taken(programs._FOR_LOOPS)
    # The order of a sum is the compiler's.
    np.testing.assert_allclose(compiled_in_haste(norms)(rows), compiled(norms)(rows), rtol=1e-6)


def test_within_another_program_it_has_the_options_of_that() -> None:
    @compiled_in_haste
    def twice(number: jax.Array) -> jax.Array:
        return 2 * number

    @compiled_in_haste
    def four_times(number: jax.Array) -> jax.Array:
        return twice(twice(number))

    number = jnp.asarray(3.0)
    assert four_times(number) == 12
    assert jax.jit(four_times)(number) == 12
    assert jax.grad(twice)(number) == 2
    assert jax.vmap(twice)(jnp.arange(3)).tolist() == [0, 2, 4]


def test_an_option_that_is_not_known_is_left_out() -> None:
    unknown = ("xla_cpu_no_such_option", 1)
    assert programs._options_taken((LEVEL, unknown, EMITTERS)) == (LEVEL, EMITTERS)
    assert programs._options_taken((unknown,)) == ()


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
    assert programs._options_taken((LEVEL, EMITTERS)) == (EMITTERS,)


def test_nothing_is_set_where_jax_is_to_optimise_little() -> None:
    jax.config.update("jax_disable_most_optimizations", True)
    assert programs._options_taken((LEVEL,)) == ()


def test_a_program_is_counted_once() -> None:
    double = compiled(lambda x: 2 * x)
    before = programs._count
    for _ in range(3):
        double(jnp.ones(5))
    assert programs._count == before + 1


def test_a_process_lets_go_of_programs_beyond_what_it_holds(monkeypatch) -> None:
    cleared: list[int] = []
    monkeypatch.setattr("jax.clear_caches", lambda: cleared.append(programs._count))
    monkeypatch.setattr(programs, "_most", 10)
    for count, held, expected in ((10, 5, []), (11, 20, []), (21, 15, [0]), (0, 30, [0])):
        monkeypatch.setattr(programs, "_count", count)
        programs.hold(held)
        programs.let_go()
        assert cleared == expected
