"""Which algorithm a predictor runs, and a run through training."""

import numpy as np
import pytest

from saddlescope.attention import (
    DeepAttention,
    FixedPointStart,
    MergedAttention,
    SeparateAttention,
)
from saddlescope.comparison.algorithms import identify_algorithm, trace_algorithms
from saddlescope.dynamics import GradientDescent, GradientFlow, Record, train
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_float64
from saddlescope.task import InContextRegression
from saddlescope.theory import Algorithm, algorithms, ridge

LONG = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=500)
SHORT = InContextRegression([0.6, 0.3], context_length=9)


@pytest.mark.parametrize("learned", range(4))
def test_a_saddle_runs_regression_on_its_principal_components(learned):
    model = SeparateAttention(heads=4)
    weights = FixedPointStart(tuple(range(learned))).weights(model, LONG, seed=0)
    distances = identify_algorithm(lambda prompts: model.predict(weights, prompts), LONG)
    assert distances.nearest == f"principal_components_{learned}"
    # The estimate of each component has a relative error of order 1/N; the next one is missing.
    near, other = (
        distances.distance(distances.nearest),
        distances.distance(f"principal_components_{learned + 1}"),
    )
    assert near < 0.1 * other


def test_the_minimum_is_the_preconditioned_step():
    model = SeparateAttention(heads=4)
    weights = FixedPointStart((0, 1, 2, 3)).weights(model, LONG, seed=0)
    distances = identify_algorithm(lambda prompts: model.predict(weights, prompts), LONG, 500)
    assert distances.nearest == "preconditioned_step"
    assert distances.distance("preconditioned_step") < 1e-25


def test_a_staircase_goes_through_the_components_in_order():
    task = InContextRegression([0.5, 0.3, 0.2], context_length=500)
    run = train(
        SeparateAttention(heads=3),
        task,
        method=GradientFlow(until=8000),
        init_scale=0.1,
        seeds=2,
        record=800,
    )
    traced = trace_algorithms(run, prompts=500)
    assert dict(traced.sizes) == {"seed": 2, "time": 800, "algorithm": 8}
    for names in traced["nearest"].values:
        components = [f"principal_components_{count}" for count in range(3)]
        assert list(dict.fromkeys(names.tolist()))[:3] == components
    last = traced.isel(time=-1)
    assert (last["nearest"] == "preconditioned_step").all()
    assert float(last["distance"].sel(algorithm="preconditioned_step").max()) < 1e-12
    np.testing.assert_array_equal(traced["time"], run.time)


@pytest.mark.parametrize(
    "model",
    [
        MergedAttention(2, activation="softmax"),
        SeparateAttention(2, blocks="full", normalisation="none"),
        DeepAttention(2, 2),
    ],
    ids=["softmax", "full", "deep"],
)
def test_any_model_is_followed(model):
    prompts = SHORT.sample(40, seed=0)
    run = train(model, prompts, method=GradientDescent(0.02, 40), init_scale=0.3, seeds=2, record=3)
    probes = SHORT.sample(50, seed=1)
    traced = trace_algorithms(run, SHORT, probes)
    gain = model.gain(9)
    for seed, index in ((0, 0), (1, 2)):
        weights = run.weights(seed, index)
        found = identify_algorithm(
            lambda given, at=weights: model.predict(at, given, gain), SHORT, probes
        )
        at = traced.isel(seed=seed, time=index)
        np.testing.assert_allclose(at["distance"], found.distances, rtol=1e-10)
        assert str(at["nearest"].values) == found.nearest
        assert float(at["error"]) == pytest.approx(found.error, rel=1e-10)
    assert "step" in traced.coords
    with pytest.raises(InvalidInput, match="name the law"):
        trace_algorithms(run)


def test_a_function_and_an_algorithm_of_ones_own():
    noisy = InContextRegression([0.6, 0.3], {4: 0.5, 9: 0.5}, label_noise=0.5)
    distances = identify_algorithm(lambda prompts: ridge(prompts, 0.25), noisy)
    # With white tasks it is Bayes-optimal too; the first of equals is named.
    assert distances.nearest == "ridge"
    assert distances.distance("bayes_optimal") < 1e-25
    assert distances.error < 0.9 * distances.label_power
    assert str(distances).endswith("nearest: ridge")
    half = Algorithm("half", lambda prompts: 0.5 * ridge(prompts, 0.25))
    mine = identify_algorithm(half, noisy, candidates=[*algorithms(noisy), half])
    assert mine.nearest == "half"
    assert mine.distance("half") == 0


def test_a_diverged_seed_is_near_nothing():
    run = train(
        MergedAttention(2), SHORT, method=GradientDescent(50.0, 50), init_scale=1.0, record=51
    )
    assert run.outcomes[0].result == "diverged"
    traced = trace_algorithms(run, prompts=20)
    known = np.isfinite(run.loss[0])
    assert (traced["nearest"].values[0][~known] == "").all()
    assert (traced["nearest"].values[0][known] != "").all()


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match=r"predictor\(prompts\)"):
        identify_algorithm(lambda prompts: prompts.query, SHORT, 5)
    with pytest.raises(InvalidInput, match="name"):
        identify_algorithm(lambda prompts: prompts.target, SHORT, 5).distance("magic")
    twice = [Algorithm("same", in_float64(lambda prompts: prompts.target))] * 2
    with pytest.raises(InvalidInput, match="each name once"):
        identify_algorithm(lambda prompts: prompts.target, SHORT, 5, candidates=twice)
    run = train(
        MergedAttention(2),
        SHORT,
        method=GradientDescent(0.1, 4),
        record=Record(points=3, weights=False),
    )
    with pytest.raises(InvalidInput, match="recorded"):
        trace_algorithms(run)
