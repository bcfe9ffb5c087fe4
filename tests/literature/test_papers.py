"""Numbers and statements of the first paper (Zhang, Singh, Latham, Saxe; arXiv 2501.16265)."""

import numpy as np
import pytest

import saddlescope as ss

TASK = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=31)


def test_levels_of_figure_3():
    """Z eq. 24 at λ = (.4, .3, .2, .1), N = 31."""
    levels = [1, 0.64058, 0.37737, 0.20980, 0.13600]
    np.testing.assert_allclose(ss.theory.plateau_losses(TASK), levels, atol=5e-6)


def test_figure_1_has_one_abrupt_drop_to_the_minimum():
    run = ss.train(
        ss.MergedAttention(heads=8), TASK, method=ss.GradientFlow(until=1500), seeds=2, record=1500
    )
    for stages in run.stages():
        assert len(stages.drops) == 1
        assert stages.plateaus[0].level == pytest.approx(1, abs=1e-2)
    np.testing.assert_allclose(run.loss[:, -1], 0.13600, atol=1e-4)


def test_figure_3_measured_without_theory():
    """The segmentation of the curve alone finds the four drops, and their levels."""
    run = ss.train(
        ss.SeparateAttention(heads=5),
        TASK,
        method=ss.GradientFlow(until=60_000),
        # The last drop of seed 0 comes later.
        seeds=[1, 2],
        record=ss.Record(points=2000, spacing="log"),
    )
    for stages in run.stages():
        levels = [plateau.level for plateau in stages.plateaus]
        np.testing.assert_allclose(levels, [1, 0.64058, 0.37737, 0.20980, 0.13600], atol=5e-3)


def test_figure_3_keys_align_with_eigenvectors_in_order():
    """After the m-th drop the m-th winning head's key is parallel to e_m (Z §4.3)."""
    run = ss.train(
        ss.SeparateAttention(heads=5), TASK, method=ss.GradientFlow(until=60_000), seeds=[1, 2]
    )
    for seed in (1, 2):
        weights = run.weights(seed)
        strength = np.abs(weights["v"]) * np.linalg.norm(weights["k"][:, 0], axis=-1)
        winners = np.argsort(-strength)[:4]
        keys = weights["k"][winners, 0]
        cosines = np.abs(keys) / np.linalg.norm(keys, axis=-1, keepdims=True)
        assert sorted(cosines.argmax(-1)) == [0, 1, 2, 3]
        assert cosines.max(-1).min() > 0.999


def test_merged_heads_become_parallel():
    """Z Fig. 6: at convergence every key–query matrix is along the optimum."""
    run = ss.train(ss.MergedAttention(heads=8), TASK, method=ss.GradientFlow(until=3000), record=20)
    best = ss.theory.minimum(TASK).effective_map
    best = best / np.linalg.norm(best)
    weights = run.weights(seed=0)
    strong = np.abs(weights["v"]) > 0.1
    matrices = weights["U"][strong]
    cosines = np.einsum("hab,ab->h", matrices, best) / np.linalg.norm(matrices, axis=(1, 2))
    assert strong.sum() >= 3
    assert np.abs(cosines).min() > 0.99


def test_higher_rank_shows_fewer_plateaus():
    """Z Fig. 4: rank two shows conspicuous plateaus at even m only."""
    task = ss.InContextRegression(spectrum="power:8:1", context_length=31)
    run = ss.train(
        ss.SeparateAttention(heads=9, rank=2),
        task,
        method=ss.GradientFlow(until=50_000),
        seeds=2,
        record=2000,
    )
    for seed in run.compare().seeds:
        times = [drop.time for drop in seed.drops if drop.time is not None]
        assert len(times) >= 4
        waits = np.diff(times)
        # The second, fourth, … drop of a head follows its first one quickly.
        assert waits[0] < 0.5 * waits[1]


def test_context_to_infinity_gives_principal_component_regression():
    """Z eq. 27: at M_m the model regresses on the first m components."""
    long = ss.InContextRegression(spectrum=[0.4, 0.3, 0.2, 0.1], context_length=4000)
    prompts = long.sample(200, seed=0)
    for learned in range(5):
        predicted = ss.theory.in_context_predictor(long, learned)(prompts)
        regressed = ss.theory.principal_component_regression(prompts, long.spectrum, learned)
        assert np.sqrt(np.mean((predicted - regressed) ** 2)) < 0.1
