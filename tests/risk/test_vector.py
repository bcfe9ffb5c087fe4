"""The exact loss on vector labels (T15)."""

from typing import Any

import numpy as np
import pytest

from saddlescope.attention import LinearTransformer
from saddlescope.risk import PromptRisk, VectorRisk
from saddlescope.task import AlignedRegression, Spectrum

BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((2, 2)))[0]
MODEL = LinearTransformer()


def weights_at(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {name: 0.7 * random.standard_normal(shape) for name, shape in MODEL.shapes(2).items()}


def risk_of(tasks: str, gain: float = 1.0) -> tuple[AlignedRegression, VectorRisk]:
    law = AlignedRegression(Spectrum([0.9, 0.4], BASIS), 6, tasks)
    risk = law.vector_objective(gain).risk
    assert isinstance(risk, VectorRisk)
    return law, risk


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_it_is_the_mean_of_the_losses_of_prompts(tasks: str) -> None:
    """Within four standard errors of 20 000 prompts."""
    law, risk = risk_of(tasks)
    weights, prompts = weights_at(0), law.sample(20_000, seed=3)
    squares = ((prompts.target - MODEL.predict(weights, prompts, 1.0)) ** 2).sum(-1)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - float(risk.loss(MODEL, weights))) < 4 * error
    assert float(PromptRisk(np.float64(1.0), prompts).loss(MODEL, weights)) == pytest.approx(
        squares.mean(), rel=1e-12
    )


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_without_weights_it_is_the_power_of_the_labels(tasks: str) -> None:
    _, risk = risk_of(tasks)
    nothing = {name: np.zeros(shape) for name, shape in MODEL.shapes(2).items()}
    assert float(risk.loss(MODEL, nothing)) == pytest.approx(1.3, rel=1e-12)


def test_a_gain_is_a_factor_of_the_weights() -> None:
    _, one = risk_of("aligned")
    _, six = risk_of("aligned", gain=6.0)
    weights = weights_at(1)
    larger = {**weights, "p2": 6 * weights["p2"]}
    assert float(six.loss(MODEL, weights)) == pytest.approx(float(one.loss(MODEL, larger)))


def test_the_two_laws_differ_off_the_identity_only() -> None:
    """p₂ = I is the same for every W; another p₂ mixes what aligned tasks keep apart."""
    losses = {}
    for tasks in ("aligned", "independent"):
        _, risk = risk_of(tasks)
        weights = weights_at(2)
        losses[tasks] = [
            float(risk.loss(MODEL, {**weights, "p2": p2})) for p2 in (np.eye(2), weights["p2"])
        ]
    assert losses["aligned"][0] == pytest.approx(losses["independent"][0], rel=1e-12)
    assert losses["aligned"][1] != pytest.approx(losses["independent"][1], rel=1e-3)
