r"""Exact moments T1 to T3 against sampled ones, at the rate $1/\sqrt n$."""

from collections.abc import Callable

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.task import (
    ContextLengths,
    InContextRegression,
    Prompts,
    regression_moments,
    sandwich,
)

D = 3


def covariance(seed: int) -> np.ndarray:
    """A random covariance that is not diagonal, of trace 1."""
    factor = np.random.default_rng(seed).standard_normal((D, D + 1))
    matrix = factor @ factor.T
    return matrix / np.trace(matrix)


TASKS = {
    "rotated inputs": InContextRegression(covariance(0), context_length=5),
    "label noise": InContextRegression(covariance(0), context_length=4, label_noise=0.7),
    "task covariance": InContextRegression(
        covariance(0), context_length=3, task_covariance=3 * covariance(1)
    ),
    "query covariance": InContextRegression(
        covariance(0), context_length=3, query_covariance=covariance(2)
    ),
    "random lengths": InContextRegression(covariance(0), context_length="uniform:1:6"),
    "all at once": InContextRegression(
        covariance(3),
        context_length=ContextLengths([2, 3, 8], [0.2, 0.5, 0.3]),
        task_covariance=3 * covariance(4),
        query_covariance=covariance(5),
        label_noise=0.5,
    ),
}
MAP = np.random.default_rng(6).standard_normal((D, D))
INNER = np.random.default_rng(7).standard_normal((D, D))

# With fewer than a hundred entries, none of them lies 5 standard errors off by chance (6e-5).
STANDARD_ERRORS = 5.0


def empirical_covariance(prompts: Prompts) -> np.ndarray:
    r"""$\hat\Lambda$ of every prompt, divided by its own length, [P, D, D]."""
    context = prompts.x[:, :-1]
    return np.einsum("pna,pnb->pab", context, context) / prompts.lengths[:, None, None]


def sampled(prompts: Prompts) -> dict[str, np.ndarray]:
    """What each exact moment is the mean of, one row a prompt."""
    beta, query, target = prompts.summary, prompts.query, prompts.target
    spread = empirical_covariance(prompts)
    predicted = np.einsum("pa,ab,pb->p", beta, MAP, query)
    return {
        "T1": spread @ spread,
        "T2": spread @ INNER @ spread,
        "label_power": target**2,
        "drive": target[:, None, None] * beta[:, :, None] * query[:, None, :],
        "summary": beta[:, :, None] * beta[:, None, :],
        "query": query[:, :, None] * query[:, None, :],
        "T3": (target - predicted) ** 2,
    }


def exact(task: InContextRegression) -> dict[str, np.ndarray]:
    """The same moments from the formulas."""
    moments, inverse = task.moments(), task.context_length.mean_inverse
    gained = 2 * np.sum(MAP * moments.drive)
    return {
        "T1": sandwich(task.covariance, np.eye(D), inverse),
        "T2": sandwich(task.covariance, INNER, inverse),
        "label_power": np.asarray(moments.label_power),
        "drive": moments.drive,
        "summary": moments.summary,
        "query": moments.query,
        "T3": moments.label_power
        - gained
        + np.trace(MAP.T @ moments.summary @ MAP @ moments.query),
    }


@pytest.mark.parametrize("name", TASKS)
def test_sampled_moments_agree_within_their_own_standard_errors(name: str) -> None:
    task, count = TASKS[name], 40_000
    truth = exact(task)
    for moment, rows in sampled(task.sample(count, seed=11)).items():
        error = np.abs(rows.mean(0) - truth[moment])
        standard_error = rows.std(0) / np.sqrt(count)
        assert (error <= STANDARD_ERRORS * standard_error).all(), moment


@pytest.mark.parametrize("moment", ["T1", "T2", "drive", "summary", "T3"])
def test_the_error_falls_as_the_root_of_the_sample(moment: str) -> None:
    task, total = TASKS["all at once"], 2**16
    rows = sampled(task.sample(total, seed=12))[moment]
    truth = exact(task)[moment]
    sizes = 2 ** np.arange(4, 13)
    errors = []
    for size in sizes:
        means = rows.reshape(total // size, size, *rows.shape[1:]).mean(1)
        errors.append(np.sqrt(np.mean((means - truth) ** 2)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # The last point is a root mean square over 16 blocks of at least one entry, so its logarithm
    # has a standard deviation of at most 1/√(2·16) = .18; weighted by its lever in the fit (.25
    # of the range of 5.5 nats), that moves the slope by .03. Three of these are allowed. A wrong
    # moment leaves an error that does not fall, and the slope goes to 0.
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_the_papers_case_is_eq_20() -> None:
    spectrum, length = np.array([0.4, 0.3, 0.2, 0.1]), 31
    moments = regression_moments(np.diag(spectrum), np.eye(4), np.diag(spectrum), 0.0, 1 / length)
    eigenvalues = spectrum**2 * (1 + (1 + spectrum.sum() / spectrum) / length)
    np.testing.assert_allclose(moments.summary, np.diag(eigenvalues), rtol=1e-14)
    np.testing.assert_allclose(moments.drive, np.diag(spectrum**2), rtol=1e-14)
    assert moments.label_power == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("name", TASKS)
def test_long_contexts_know_the_covariance(name: str) -> None:
    task = TASKS[name]
    covariances = (task.covariance, task.task_matrix, task.query_matrix)
    moments = regression_moments(*covariances, task.label_noise, 0.0)
    # At 1/N = 0 the summary is Λw exactly: B = ΛΣΛ, and noise has averaged out.
    limit = task.covariance @ task.task_matrix @ task.covariance
    np.testing.assert_allclose(moments.summary, limit, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: (m, np.eye(D), m, 0.0, 1 / 7),
        lambda m: (m, covariance(1), covariance(2), 0.4, 1 / 3),
    ],
)
def test_moments_turn_with_the_coordinates(change: Callable[..., tuple]) -> None:
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((D, D)))[0]
    arguments = change(covariance(0))
    here = regression_moments(*arguments)
    turned = [turn @ part @ turn.T if np.ndim(part) == 2 else part for part in arguments]
    there = regression_moments(*turned)
    for field in ("drive", "summary", "query"):
        expected = turn @ getattr(here, field) @ turn.T
        np.testing.assert_allclose(getattr(there, field), expected, atol=1e-14)
    assert there.label_power == pytest.approx(here.label_power, rel=1e-13)


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_of_a_map_is_that_of_its_predictions(name: str) -> None:
    task = TASKS[name]
    effective_map = np.random.default_rng(4).standard_normal((D, D))
    prompts = task.sample(20_000, seed=5)
    predicted = ((prompts.summary @ effective_map) * prompts.query).sum(1)
    errors = (prompts.target - predicted) ** 2
    deviation = errors.std() / np.sqrt(prompts.count)
    assert task.moments().loss(effective_map) == pytest.approx(errors.mean(), abs=4 * deviation)


@pytest.mark.parametrize("name", TASKS)
def test_the_force_is_half_the_slope_of_the_loss(name: str) -> None:
    moments = TASKS[name].moments()
    point, step = np.random.default_rng(4).standard_normal((2, D, D))
    # The loss is quadratic, so that a central difference has no error but rounding.
    change = moments.loss(point + step) - moments.loss(point - step)
    assert -change / 4 == pytest.approx(float((moments.force(point) * step).sum()), rel=1e-12)


@pytest.mark.parametrize("largest", [1e160, 1e105])
def test_moments_and_curvatures_beyond_float64_are_refused(largest: float) -> None:
    matrix = np.diag([largest, 1.0])
    with pytest.raises(InvalidInput, match=r"spectrum = .*: makes moments of the task beyond"):
        regression_moments(matrix, np.eye(2), matrix, 0.0, 1 / 7)
