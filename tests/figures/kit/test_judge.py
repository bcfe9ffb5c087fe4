"""A wrong theory makes the right claims fail: the judge can fail."""

from typing import Any

import numpy as np
import pytest

from saddlescope.attention import SeparateAttention
from saddlescope.comparison import _compare
from saddlescope.figures import Watch
from saddlescope.figures.zhang import fig3
from saddlescope.figures.zhang.fig3 import Figure3
from saddlescope.figures.zhang.staircase import STAIRCASE

QUICK = Figure3(STAIRCASE.replace(seeds=(3, 8), until=12_000.0, points=800))
LEVELS = "each plateau lies at the loss of its fixed point (T7)"
ORDER = "eigenvectors are learned in falling order of eigenvalue"
KEYS = (
    "on the plateau after a drop, the key of the head that has learned lies along its eigenvector: "
    "|cos|"
)
CONSERVED = "conserved quantities stay constant (T14): largest drift"


def failed(figure: Figure3 = QUICK) -> set[str]:
    claims = figure.claims(figure.compute(Watch()))
    return {claim.name for claim in claims if not claim.as_expected}


def test_the_right_theory_passes() -> None:
    assert failed() == set()


def test_levels_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    true_levels = _compare.plateau_losses
    scaled = lambda task, model: 1.05 * true_levels(task, model=model)  # noqa: E731
    monkeypatch.setattr(_compare, "plateau_losses", scaled)
    names = failed()
    assert LEVELS in names
    assert not names & {ORDER, KEYS, CONSERVED}


def test_eigenvectors_permuted(monkeypatch: pytest.MonkeyPatch) -> None:
    true_modes = fig3.modes

    def permuted(task: Any) -> Any:
        modes = true_modes(task)
        object.__setattr__(modes, "basis", np.roll(modes.basis, 1, axis=1))
        return modes

    monkeypatch.setattr(fig3, "modes", permuted)
    names = failed()
    assert ORDER in names
    assert not names & {LEVELS, CONSERVED}


def test_the_sign_of_a_conserved_quantity_flipped(monkeypatch: pytest.MonkeyPatch) -> None:
    true_conserved = SeparateAttention.conserved

    def flipped(self: SeparateAttention, weights: Any) -> Any:
        right = true_conserved(self, weights)
        size = (weights["k"] ** 2).sum(-1) + (weights["q"] ** 2).sum(-1)
        return {**right, next(iter(right)): size}

    monkeypatch.setattr(SeparateAttention, "conserved", flipped)
    # What is compiled is kept by shape: this one is nobody else's.
    assert failed(Figure3(QUICK.setting.replace(points=801))) == {CONSERVED}
