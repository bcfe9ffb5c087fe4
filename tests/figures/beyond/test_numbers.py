"""Small formulas of the figures beyond the papers."""

import numpy as np
import pytest
import xarray as xr

from saddlescope.figures.beyond import depth, law_panels, merged_any_covariance, modes_exactness
from saddlescope.figures.beyond.any_inputs import AnyInputs
from saddlescope.figures.beyond.context_lengths import (
    ContextLengthsFigure,
    _divided_by_tokens,
    _token_level,
)
from saddlescope.task import ContextLengths, InContextRegression
from saddlescope.theory import plateau_losses
from saddlescope.theory.staircase.dormant import first_drop_delay


def test_the_last_level_at_a_length_between_two_whole_ones():
    figure = ContextLengthsFigure()
    ends = [float(plateau_losses(figure._at(length).task)[-1]) for length in (20, 21)]
    assert figure._last_level(20.0) == pytest.approx(ends[0], rel=1e-12)
    between = figure._last_level(20.5)
    assert ends[1] < between < ends[0]
    # Nearly linear between neighbours.
    assert between == pytest.approx(np.mean(ends), rel=1e-3)


def test_a_gain_is_in_standard_errors():
    """Exact on every other of 100 prompts, where another is off by one on all: ½ over ½/√100."""
    target = np.arange(100.0)
    other = (target + 1.0)[None]
    predicted = target + np.tile([0.0, 1.0], 50)[None]
    np.testing.assert_allclose(depth._gain(predicted, other, target), [10.0])
    np.testing.assert_allclose(depth._gain(other, predicted, target), [-10.0])


def test_the_order_in_which_algorithms_are_nearest():
    figure = depth.Depth.quick()
    names = figure._names()
    assert names == [
        "principal_components_0",
        "principal_components_1",
        "principal_components_2",
        "preconditioned_step",
        "least_squares",
    ]
    distance = np.ones((2, 1, 12, 5))
    for record in range(12):
        distance[1, 0, record, [0, 1, 3, 4][record // 3]] = 0.0
        # One layer: no component, one step, then back to one component.
        distance[0, 0, record, [0, 3, 1][record // 4]] = 0.0
    data = xr.Dataset(
        {"distance": (("depth", "seed", "time", "algorithm"), distance)}, coords={"depth": [1, 2]}
    )
    measured, predicted = figure._orders(data)
    assert predicted == [1, 2, 3, 1, 2, 3, 4]
    assert measured == [1, 3, 2, 1, 2, 3, 4]


def test_covariances_by_name_have_trace_one():
    for name in ("power:5", "random:4"):
        assert merged_any_covariance._spectrum(name).trace == pytest.approx(1.0)
    matrix = merged_any_covariance._spectrum("random:4").matrix
    assert np.abs(matrix - np.diag(np.diagonal(matrix))).max() > 0.01, "not diagonal"


def test_slopes_and_lateness():
    scale = np.array([0.001, 0.01, 0.1])
    values = np.stack([3 - 2 * np.log(scale), np.log(scale)], axis=1)
    np.testing.assert_allclose(merged_any_covariance._power(scale, values), [-2.0, 1.0])
    data = xr.Dataset({"drop_time": 12.0, "aligned_plateau": 10.0, "growth_rate": 0.5})
    assert merged_any_covariance._lateness(data) == 1.0


def test_the_largest_distance_from_theory():
    data = xr.Dataset(
        {"loss": ("point", [1.0, 0.5, 0.2]), "predicted_loss": ("point", [1.0, 0.53, 0.19])}
    )
    assert merged_any_covariance._error(data) == pytest.approx(0.03)


def test_errors_are_rounded_to_the_digits_that_are_stated():
    digits = [stated for _, stated in modes_exactness._STATED.values()]
    rounded = modes_exactness._rounded(np.full(len(digits), 0.123456789))
    assert rounded == [round(0.123456789, stated) for stated in digits]


def test_levels_and_delays_at_a_kurtosis():
    figure = AnyInputs()
    for law, kurtosis in (("uniform", -1.2), ("laplace", 3.0), ("student:8", 1.5)):
        setting = figure.setting.replace(inputs=law)
        levels = plateau_losses(setting.task)
        np.testing.assert_allclose(figure._levels(kurtosis), levels, rtol=1e-13)
        delay = first_drop_delay(setting.model, setting.task)
        np.testing.assert_allclose(figure._delay(np.array([kurtosis])), [delay], rtol=1e-9)


def test_laws_in_words():
    assert law_panels._label("laplace") == "Laplace"
    assert law_panels._label("student:10") == r"Student, $\nu = 10$"


def test_the_least_loss_where_prompts_are_divided_by_their_tokens():
    """At one length the factor N/(N + 1) cancels; at two it does not."""
    task = InContextRegression([0.5, 0.3], 16)
    last = plateau_losses(task)[-1]
    assert _token_level(task, ContextLengths([16])) == pytest.approx(last, rel=1e-12)
    pair = ContextLengths([9, 72])
    uneven = InContextRegression([0.5, 0.3], pair)
    assert _token_level(uneven, pair) < 0.99 * plateau_losses(uneven)[-1]
    prompts = uneven.sample(20, seed=0)
    share = prompts.lengths / (prompts.lengths + 1)
    divided = _divided_by_tokens(prompts)
    np.testing.assert_allclose(divided.summary, np.asarray(share)[:, None] * prompts.summary)
    np.testing.assert_array_equal(divided.target, prompts.target)
