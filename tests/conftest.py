"""Strict numerics for every test; the user's global 64-bit setting stays off."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

# Before JAX and matplotlib are imported, and inherited by the processes that tests start.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"
# Most programs of the tests run for a moment: to optimise them takes longer. See `optimised`.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import gc

import hypothesis
import jax
import pytest
from tests.hook import check_calls

# Shapes are checked where the mathematics is.
_ROOMS = "attention comparison dynamics measure risk task theory transformer"
check_calls([f"saddlescope.{room}" for room in _ROOMS.split()])
# Traced programs are many objects that live long; looking through them often takes a tenth of all
# time.
gc.set_threshold(100_000, 50, 100)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# "fixed" draws the same examples every time; HYPOTHESIS_PROFILE=explore looks further.
# A first example compiles, so neither deadlines nor slow draws mean anything.
_compiling = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("fixed", derandomize=True, database=None, **_compiling)
hypothesis.settings.register_profile("explore", max_examples=500, **_compiling)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session", autouse=True)
def _warnings_are_errors(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.inipath is not None
    assert pytestconfig.inipath.name == "pyproject.toml"
    assert pytestconfig.getini("filterwarnings")[0] == "error"


@pytest.fixture(scope="session")
def optimised() -> Callable[[], AbstractContextManager[None]]:
    """In which context what is compiled is optimised: for programs that run for long.

    They run several times faster. A process that a test starts takes it from
    JAX_DISABLE_MOST_OPTIMIZATIONS.
    """

    @contextmanager
    def context() -> Iterator[None]:
        before = jax.config.read("jax_disable_most_optimizations")
        jax.config.update("jax_disable_most_optimizations", False)
        # JAX takes what it has compiled of the same program, optimised or not.
        jax.clear_caches()
        try:
            yield
        finally:
            jax.config.update("jax_disable_most_optimizations", before)

    return context


@pytest.fixture
def no_program_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """All compiled programs stay, however many the tests before have made."""
    from saddlescope.running import programs

    monkeypatch.setattr(programs, "_most", 10**6)


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a hundred steps, or of three of a decoder's."""
    from saddlescope.dynamics._job import Job
    from saddlescope.running import loop
    from saddlescope.transformer._training import _Training

    monkeypatch.setattr(loop, "next_budget", lambda budget, *rest: budget)
    monkeypatch.setattr(Job, "first_budget", 100)
    monkeypatch.setattr(_Training, "first_budget", 3)


@pytest.fixture(autouse=True)
def _global_precision_untouched() -> Iterator[None]:
    assert not jax.config.jax_enable_x64
    yield
    assert not jax.config.jax_enable_x64, "the test changed the global jax_enable_x64"
