"""The law of the inputs: its moments against exact sums and draws, its fields, refusals (T20)."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.setting.toml import load_toml, save_toml
from saddlescope.task import Spectrum
from saddlescope.task.inputs import CoordinateLaw, make_inputs
from saddlescope.task.samplers import draw_prompts

TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
ROTATED = TURN @ np.diag([0.5, 0.3]) @ TURN.T
# Tasks whose covariance does not commute with that of the inputs.
SKEW = np.array([[1.0, 0.4], [0.4, 0.5]])
SAMPLES = np.random.default_rng(1).laplace(size=(50, 2)) @ SKEW + [0.3, -0.2]

SAMPLERS = ("numpy", "compiled")
COUNT = 20_000

SCIPY = {
    "gaussian": scipy.stats.norm(),
    "uniform": scipy.stats.uniform(-(3**0.5), 2 * 3**0.5),
    "laplace": scipy.stats.laplace(scale=0.5**0.5),
    "student:6": scipy.stats.t(6, scale=(4 / 6) ** 0.5),
}
# Points of equal weight with the first five moments of each law, so that averages over their grid
# are exact.
POINTS = {
    "gaussian": [-(3**0.5), 3**0.5] + [0.0] * 4,
    "rademacher": [-1.0, 1.0],
    "uniform": [-(1.8**0.5)] * 5 + [1.8**0.5] * 5 + [0.0] * 8,
    "laplace": [-(6**0.5), 6**0.5] + [0.0] * 10,
    "student:6": [-(6**0.5), 6**0.5] + [0.0] * 10,
}


def law(inputs: object, **changes: Any) -> ss.InContextRegression:
    parts: dict[str, Any] = {"covariance": ROTATED, "context_length": 3}
    return ss.InContextRegression(**{**parts, **changes}, inputs=inputs)


def drawn(task: ss.InContextRegression, sampler: str) -> ss.Prompts:
    """Prompts by NumPy's or the compiled sampler, of one number: each shape is compiled anew."""
    return task.sample(COUNT, 3) if sampler == "numpy" else draw_prompts(task.sampler(), COUNT, 3)


def drawn_white(inputs: str, sampler: str) -> Any:
    """Inputs of unit variance, [n]."""
    return drawn(law(inputs, covariance=np.eye(2)), sampler).x.ravel()


@pytest.mark.parametrize("name", SCIPY)
def test_a_law_has_the_variance_and_the_kurtosis_of_its_density(name: str) -> None:
    mean, variance, kurtosis = map(float, SCIPY[name].stats(moments="mvk"))
    assert (mean, variance) == pytest.approx((0.0, 1.0), abs=1e-12)
    assert CoordinateLaw.parse(name).excess_kurtosis == pytest.approx(kurtosis, abs=1e-12)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", SCIPY)
def test_draws_have_the_law_s_distribution(name: str, sampler: str) -> None:
    """Kolmogorov's test on 160 000 numbers; on those of another law it gives 1e-130 or less."""
    assert scipy.stats.kstest(drawn_white(name, sampler), SCIPY[name].cdf).pvalue > 1e-3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_rademacher_draws_are_signs(sampler: str) -> None:
    drawn = drawn_white("rademacher", sampler)
    assert set(drawn) == {-1.0, 1.0}
    assert abs(drawn.mean()) < 4.5 / np.sqrt(drawn.size)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_coordinate_has_its_own_law(sampler: str) -> None:
    task = law(["rademacher", "laplace"])
    first, second = (drawn(task, sampler).x @ TURN / np.sqrt([0.5, 0.3])).reshape(-1, 2).T
    # The eigenvectors' signs are free, and both laws are even.
    np.testing.assert_allclose(np.abs(first), 1.0, rtol=1e-12)
    assert scipy.stats.kstest(second, SCIPY["laplace"].cdf).pvalue > 1e-3


@pytest.mark.parametrize("laws", [*product(POINTS, repeat=1), ("laplace", "rademacher")])
@pytest.mark.parametrize("tasks", [None, SKEW], ids=["papers", "skew"])
def test_independent_coordinates_have_the_moments_of_a_grid(laws: Any, tasks: Any) -> None:
    """T20 against the sum over a grid of points that has the law's moments."""
    grid = product(*(POINTS[name] for name in (laws if len(laws) == 2 else 2 * laws)))
    samples = np.array(list(grid)) * np.sqrt([0.5, 0.3]) @ Spectrum.make(ROTATED).basis.T
    other = {"task_covariance": tasks, "label_noise": 0.4, "context_length": {2: 0.5, 7: 0.5}}
    exact = law(samples, covariance=None, **other).moments()
    moments = law(laws, **other).moments()
    for name in ("label_power", "drive", "summary", "query"):
        np.testing.assert_allclose(getattr(moments, name), getattr(exact, name), atol=1e-14)


@pytest.mark.parametrize("inputs", ["rademacher", "uniform", "laplace", "student:12", SAMPLES])
def test_the_moments_are_those_of_drawn_prompts(inputs: Any) -> None:
    """Within four and a half standard errors, for both samplers and any task covariance."""
    own = {"covariance": None} if isinstance(inputs, np.ndarray) else {}
    task = law(inputs, task_covariance=SKEW, label_noise=0.3, **own)
    exact = task.moments()
    for sampler in SAMPLERS:
        prompts = drawn(task, sampler)
        summary, query, target = prompts.summary, prompts.query, prompts.target
        products = {
            "label_power": target**2,
            "drive": target[:, None, None] * summary[:, :, None] * query[:, None, :],
            "summary": summary[:, :, None] * summary[:, None, :],
            "query": query[:, :, None] * query[:, None, :],
        }
        for moment, values in products.items():
            error = values.std(axis=0) / np.sqrt(len(values))
            distance = np.abs(values.mean(axis=0) - getattr(exact, moment))
            assert (distance <= 4.5 * error).all(), moment


def test_the_fourth_moment_shows() -> None:
    """The test above would tell other laws apart: B differs from Gaussian inputs' by more."""
    gaussian = law("gaussian", label_noise=0.3).moments().summary
    for name in ("rademacher", "laplace", "student:12"):
        other = law(name, label_noise=0.3).moments().summary
        assert np.abs(other - gaussian).max() > 0.05 * np.abs(gaussian).max()


def test_a_scale_mixture_as_samples() -> None:
    r"""T20 for $x = \sqrt s z$: g = E s² multiplies what the Gaussian pairings add."""
    scales = np.array([0.5, 0.5, 2.0])
    gaussian = np.array(list(product(POINTS["gaussian"], repeat=2))) * np.sqrt([0.4, 0.1])
    samples = np.concatenate([np.sqrt(s) * gaussian for s in scales])
    task = law(samples, covariance=None, context_length=4, label_noise=0.5)
    covariance, growth = np.diag([0.4, 0.1]), np.mean(scales**2)
    expected = (1 + (2 * growth - 1) / 4) * covariance**2
    expected = expected + (growth * 0.5 + 0.25) * covariance / 4
    # The grid's cross moments E[z_1² z_2²] = 1 and E z⁴ = 3 are those of Gaussians.
    np.testing.assert_allclose(task.moments().summary, expected, atol=1e-14)


def test_samples_are_drawn_as_they_are() -> None:
    task = law(SAMPLES, covariance=None)
    rows = {tuple(row) for row in SAMPLES}
    for sampler in SAMPLERS:
        inputs = np.unique(drawn(task, sampler).x.reshape(-1, 2), axis=0)
        assert {tuple(row) for row in inputs} == rows
    np.testing.assert_allclose(task.covariance, SAMPLES.T @ SAMPLES / 50, atol=1e-15)
    shifted = law(SAMPLES, covariance=None, query_covariance=[0.2, 0.1])
    for sampler in SAMPLERS:
        prompts = drawn(shifted, sampler)
        context = np.unique(prompts.x[:, :-1].reshape(-1, 2), axis=0)
        assert {tuple(row) for row in context} == rows
        # Queries of another covariance are Gaussian.
        for axis, variance in enumerate([0.2, 0.1]):
            query = prompts.query[:, axis] / np.sqrt(variance)
            assert scipy.stats.kstest(query, "norm").pvalue > 1e-3


def test_a_common_basis_is_one_of_the_summary_too() -> None:
    """With white inputs and Gaussian tasks any basis would do; the fourth moment chooses one."""
    assert law("laplace", covariance=np.eye(2), task_covariance=SKEW).common_basis is None
    assert law("gaussian", covariance=np.eye(2), task_covariance=SKEW).common_basis is not None
    assert law(SAMPLES, covariance=None).common_basis is None
    with pytest.raises(ss.TheoryDoesNotApply, match="share no eigenvectors"):
        ss.theory.modes(law(SAMPLES, covariance=None))
    for changes in ({}, {"task_covariance": 2 * ROTATED}):
        task = law(["laplace", "uniform"], **changes)
        basis = task.common_basis
        assert basis is not None
        turned = basis.T @ task.moments().summary @ basis
        np.testing.assert_allclose(turned, np.diag(np.diagonal(turned)), atol=1e-15)


def test_gaussian_inputs_go_without_saying() -> None:
    assert "inputs" not in setting(law("gaussian")).to_dict()["task"]  # type: ignore[operator]
    assert setting(law("gaussian,gaussian")) == setting(ss.InContextRegression(ROTATED, 3))
    assert "inputs" not in repr(law("gaussian"))


def setting(task: ss.InContextRegression) -> ss.Setting:
    return ss.Setting(ss.SeparateAttention(heads=2), task, ss.GradientFlow(until=1.0))


@pytest.mark.parametrize(
    "inputs", ["laplace", "student:5.5", ["uniform", "gaussian"], SAMPLES], ids=str
)
def test_a_law_is_read_as_it_is_written(inputs: Any, tmp_path: Any) -> None:
    own = {"covariance": None} if isinstance(inputs, np.ndarray) else {}
    one = setting(law(inputs, **own))
    assert one.digest != setting(law("gaussian")).digest
    arrays: dict[str, Any] = {}
    again = ss.Setting.from_dict(one.to_dict(arrays), arrays)
    save_toml(one, tmp_path / "setting.toml")
    from_file = ss.Setting.from_dict(*load_toml(tmp_path / "setting.toml"))
    for other in (again, from_file):
        assert other.digest == one.digest
        np.testing.assert_array_equal(other.task.sample(2).x, one.task.sample(2).x)  # type: ignore
    longer = one.replace(context_length=5).task
    assert str(longer.inputs) == str(make_inputs(inputs))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(longer.covariance, one.task.covariance)  # type: ignore


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": "cauchy"}, "inputs = 'cauchy': must be gaussian, rademacher"),
        ({"inputs": "student"}, "must be gaussian, rademacher"),
        ({"inputs": "student:4"}, "needs NU above 4"),
        ({"inputs": "student:nan"}, "must be gaussian, rademacher"),
        ({"inputs": "laplace:3"}, "must be gaussian, rademacher"),
        ({"inputs": None}, "must be gaussian, rademacher"),
        ({"inputs": 3}, "must be gaussian, rademacher"),
        ({"inputs": ["laplace", 3]}, "inputs = "),
        ({"inputs": "laplace,uniform,laplace"}, "has 3 laws, and spectrum has D = 2"),
        ({"inputs": ["laplace"] * 3}, "has 3 laws, and spectrum has D = 2"),
        ({"inputs": "laplace,uniform", "spectrum": [0.1, 0.4]}, "in falling order"),
        ({"inputs": SAMPLES}, "spectrum = .*: samples as inputs have a second moment"),
        ({"inputs": SAMPLES, "spectrum": None, "covariance": np.eye(2)}, "covariance = "),
        ({"inputs": [1.0, 2.0], "spectrum": None}, r"inputs.shape = \(2,\)"),
        ({"inputs": np.zeros((3, 2)), "spectrum": None}, "not all zero"),
        ({"inputs": [[1.0, np.nan]], "spectrum": None}, "finite numbers only"),
        ({"inputs": [[1e160]], "spectrum": None}, "inputs = "),
        ({"inputs": SAMPLES, "spectrum": None, "task_covariance": [1.0]}, "D = 2"),
    ],
)
def test_a_refusal_says_what_is_allowed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        ss.InContextRegression(**{"spectrum": [0.4, 0.1], "context_length": 3, **arguments})
    assert "\n" not in str(refusal.value)


def test_one_law_for_all_needs_no_order_of_the_spectrum() -> None:
    task = ss.InContextRegression([0.1, 0.4], 3, inputs=["laplace", "laplace"])
    assert str(task.inputs) == "laplace"
    assert np.diagonal(task.covariance).tolist() == [0.1, 0.4]


def test_what_rests_on_gaussian_moments_refuses_others() -> None:
    for make in (ss.TaskPool, ss.AlignedRegression):
        make([0.4, 0.1], 3, inputs="gaussian")
        with pytest.raises(InvalidInput, match=r"inputs = 'laplace': must be gaussian: .* \(T"):
            make([0.4, 0.1], 3, inputs="laplace")
    model = ss.MergedAttention(heads=2, blocks="full")
    with pytest.raises(InvalidInput, match=r"must be gaussian: .* take reduced blocks"):
        ss.train(model, law("laplace"), method=ss.GradientFlow(until=1.0))
    with pytest.raises(ss.TheoryDoesNotApply, match="must be gaussian"):
        ss.theory.fixed_points(law("laplace"), model=model)
    # Statistics that are measured need no law.
    assert law("laplace").statistics(50, blocks="full").blocks == "full"
