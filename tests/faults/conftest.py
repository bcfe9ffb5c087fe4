"""How much is tried: a small fixed share by default, everything under `make soak`.

SADDLESCOPE_SOAK is not set (small counts), `fixed` (full counts), `random` (full counts and a fresh
seed, which is printed) or a seed that was printed.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

import numpy as np
import pytest

_AMOUNT = "SADDLESCOPE_SOAK"
_FIXED_SEED = 20_240_607

# The workers, which inherit it, must draw from the seed that is printed.
if os.environ.get(_AMOUNT) == "random":
    os.environ[_AMOUNT] = str(secrets.randbits(32))


def pytest_report_header() -> str:
    return f"{_AMOUNT}={os.environ.get(_AMOUNT, '')}"


@dataclass(frozen=True)
class Soak:
    """The counts and the randomness of one test."""

    full: bool
    random: np.random.Generator

    def count(self, small: int, full: int) -> int:
        """`small` in an ordinary run, `full` under soak."""
        return full if self.full else small


@pytest.fixture
def soak() -> Soak:
    """How much to try, and a generator at its beginning."""
    amount = os.environ.get(_AMOUNT, "")
    seed = int(amount) if amount.isdigit() else _FIXED_SEED
    if not amount.isdigit() and amount not in ("", "fixed"):
        raise pytest.UsageError(f"{_AMOUNT}={amount}: must be fixed, random or a seed")
    return Soak(bool(amount), np.random.default_rng(seed))
