"""Compiled programs: tuned where XLA knows how, counted once each."""

import jax
import jax.numpy as jnp
import pytest

from saddlescope.running import programs


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_TUNING", {"xla_of_another_version": "1"})
    monkeypatch.setattr(programs, "_is_tuned", True)
    double = programs.compiled(lambda x: 2 * x)
    assert double(jnp.ones(3)).tolist() == [2, 2, 2]
    assert not programs._is_tuned
    assert double(jnp.ones(2)).tolist() == [2, 2]


def test_what_is_known_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_is_tuned", True)
    programs.compiled(lambda x: 2 * x)(jnp.ones(3))
    assert programs._is_tuned


def test_another_error_of_xla_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_is_tuned", True)

    def fail(x: object) -> object:
        raise jax.errors.JaxRuntimeError("out of memory")

    with pytest.raises(jax.errors.JaxRuntimeError, match="out of memory"):
        programs.compiled(fail)(jnp.ones(3))
    assert programs._is_tuned


def test_a_program_may_be_part_of_another() -> None:
    double = programs.compiled(lambda x: 2 * x)
    assert programs.compiled(lambda x: double(x) + 1)(jnp.ones(2)).tolist() == [3, 3]
    assert jax.eval_shape(double, jnp.ones(2)).shape == (2,)


def test_a_program_is_counted_once() -> None:
    double = programs.compiled(lambda x: 2 * x)
    before = programs._count
    for _ in range(3):
        double(jnp.ones(5))
    assert programs._count == before + 1
