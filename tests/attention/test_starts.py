"""Where training begins."""

import numpy as np
import pytest

from saddlescope.attention import (
    AbstractAttention,
    AbstractStart,
    BalancedStart,
    ConvolutionalNetwork,
    EigenvectorStart,
    FixedPointStart,
    GivenStart,
    MergedAttention,
    RandomStart,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput
from saddlescope.task import InContextRegression

TASK = InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
ROTATED = InContextRegression(TURN @ np.diag([0.4, 0.3, 0.2, 0.1]) @ TURN.T, context_length=31)
CROSSED = InContextRegression(ROTATED.covariance, 31, task_covariance=[4.0, 3.0, 2.0, 1.0])
DATA = TASK.sample(5)
MODELS = [
    MergedAttention(4),
    SeparateAttention(4, 1),
    SeparateAttention(2, 2),
    TwoLayerNetwork(4),
    ConvolutionalNetwork(4),
]
each_model = pytest.mark.parametrize(
    "model", MODELS, ids=["merged", "separate", "rank two", "two layers", "convolution"]
)


def assert_equal(these, those) -> None:
    assert set(these) == set(those)
    for name, array in these.items():
        np.testing.assert_array_equal(array, those[name])


@each_model
def test_the_papers_start_has_the_papers_deviations(model: AbstractAttention) -> None:
    starts = RandomStart(0.5).ensemble(model, TASK, np.arange(2000))
    for name, deviation in model.deviations(4).items():
        entries = starts[name].ravel()
        # n entries know a deviation to 1/√(2n), and a mean to 1/√n of it; four of these.
        tolerance = 4 / np.sqrt(entries.size)
        assert entries.std() == pytest.approx(0.5 * deviation, rel=tolerance)
        assert abs(entries.mean()) < tolerance * deviation


def test_the_papers_deviations_are_those_of_section_0() -> None:
    assert MergedAttention(4).deviations(3) == {"v": 1 / 2, "U": 1 / 6}
    separate = SeparateAttention(4, 2).deviations(3)
    assert separate["v"] == 1 / 2
    assert separate["k"] == separate["q"] == pytest.approx(24**-0.5, rel=1e-15)


@each_model
def test_a_seeds_start_depends_on_seed_and_shape_alone(model: AbstractAttention) -> None:
    here = RandomStart(0.01).weights(model, TASK, 3)
    assert all(array.dtype == np.float64 for array in here.values())
    assert_equal(here, RandomStart(0.01).weights(model, TASK, 3))
    for other in (ROTATED, CROSSED, DATA, DATA.statistics()):
        assert_equal(here, RandomStart(0.01).weights(model, other, 3))
    another = RandomStart(0.01).weights(model, TASK, 4)
    assert all((here[name] != another[name]).all() for name in here)
    # In an ensemble a seed's place does not matter.
    ensemble = RandomStart(0.01).ensemble(model, TASK, np.array([7, 3]))
    assert_equal(here, {name: array[1] for name, array in ensemble.items()})
    # The scale is a factor.
    larger = RandomStart(0.02).weights(model, TASK, 3)
    for name, array in larger.items():
        np.testing.assert_allclose(array, 2 * here[name], rtol=1e-15)


def test_normalisation_does_not_change_the_draw() -> None:
    assert_equal(
        RandomStart().weights(MergedAttention(4), TASK, 0),
        RandomStart().weights(MergedAttention(4, "none"), TASK, 0),
    )


@each_model
def test_a_balanced_start_is_as_large_as_asked_at_any_scale(model: AbstractAttention) -> None:
    small, large = (
        BalancedStart(scale).ensemble(model, TASK, np.arange(3)) for scale in (1e-200, 1e200)
    )
    for name, array in small.items():
        np.testing.assert_allclose(large[name] / 1e200, array / 1e-200, rtol=1e-13)


@each_model
@pytest.mark.parametrize("task", [TASK, DATA], ids=["law", "data"])
def test_a_balanced_start_conserves_zero(model: AbstractAttention, task) -> None:
    weights = BalancedStart(0.1).weights(model, task, 2)
    for name, array in model.conserved(weights).items():
        np.testing.assert_allclose(array, 0, atol=1e-16, err_msg=name)
    drawn = RandomStart(0.1).weights(model, task, 2)
    first = next(iter(drawn))
    np.testing.assert_allclose(weights[first], drawn[first], rtol=1e-15)


def test_an_aligned_start_lies_along_the_drive() -> None:
    for task in (TASK, ROTATED, CROSSED):
        weights = BalancedStart(0.1, "aligned").weights(MergedAttention(4), task, 2)
        drive = task.moments().drive
        expected = weights["v"][:, None, None] * drive / np.linalg.norm(drive)
        np.testing.assert_allclose(weights["U"], expected, atol=1e-16)
        values = MergedAttention(4).conserved(weights)["value_balance"]
        np.testing.assert_allclose(values, 0, atol=1e-16)


def test_an_aligned_start_on_white_inputs_is_that_of_t9() -> None:
    white = InContextRegression("white:4", context_length=31)
    weights = BalancedStart(0.1, "aligned").weights(MergedAttention(3), white, 0)
    np.testing.assert_allclose(weights["U"], weights["v"][:, None, None] * np.eye(4) / 2)


@each_model
@pytest.mark.parametrize("normalisation", ["context", "none"])
@pytest.mark.parametrize("task", [TASK, ROTATED], ids=["axes", "rotated"])
def test_a_fixed_point_start_is_a_fixed_point(
    model: AbstractAttention, normalisation: str, task: InContextRegression
) -> None:
    subset = (0, 2)
    model = type(model)(**{**vars(model), "normalisation": normalisation})
    weights = FixedPointStart(subset).weights(model, task, 0)
    gain = model.gain(31)
    effective_map = np.asarray(model.effective_map(weights, gain))
    moments = task.moments()
    # T7: along a learned eigenvector the force vanishes, and the map is λ/a.
    basis = task.common_basis
    assert basis is not None
    values = np.array([0.4, 0.3, 0.2, 0.1])
    second = values**2 * (1 + (1 + 1 / values) / 31)
    expected = np.where(np.isin(np.arange(4), subset), values / second, 0.0)
    np.testing.assert_allclose(basis.T @ effective_map @ basis, np.diag(expected), atol=1e-12)
    if not isinstance(model, MergedAttention | TwoLayerNetwork):
        force = moments.drive - moments.summary @ effective_map @ moments.query
        for array in model.pull_back(weights, gain * force).values():
            np.testing.assert_allclose(array, 0, atol=1e-12 * gain)


def test_a_fixed_point_start_may_be_perturbed() -> None:
    model = SeparateAttention(4)
    exact = FixedPointStart((1,)).weights(model, TASK, 5)
    beside = FixedPointStart((1,), init_scale=0.01).weights(model, TASK, 5)
    noise = RandomStart(0.01).weights(model, TASK, 5)
    for name, array in beside.items():
        np.testing.assert_array_equal(array, exact[name] + noise[name])


def test_the_empty_subset_is_zero() -> None:
    weights = FixedPointStart(()).weights(SeparateAttention(4), TASK, 0)
    assert not any(array.any() for array in weights.values())


@pytest.mark.parametrize("task", [TASK, ROTATED], ids=["axes", "rotated"])
def test_an_eigenvector_start_is_one_head_along_it(task: InContextRegression) -> None:
    weights = EigenvectorStart(2, 0.1).weights(SeparateAttention(3), task, 0)
    direction = task.spectrum.basis[:, 2]
    assert weights["v"] == pytest.approx([0.1, 0, 0], abs=1e-16)
    for name in ("k", "q"):
        lengths = np.linalg.norm(weights[name], axis=-1)[:, 0]
        assert lengths == pytest.approx([0.1, 0, 0], abs=1e-15)
    map_along = SeparateAttention(3).effective_map(weights)
    np.testing.assert_allclose(map_along, 1e-3 * np.outer(direction, direction), atol=1e-17)


def test_given_weights_serve_all_seeds_or_one_each() -> None:
    model = SeparateAttention(2)
    each = RandomStart().ensemble(model, TASK, np.arange(3))
    start = GivenStart(each)
    assert start.labels(model, TASK) == (0, 1, 2)
    for seed in range(3):
        one = start.weights(model, TASK, seed)
        assert_equal(one, RandomStart().weights(model, TASK, seed))
    single = GivenStart(RandomStart().weights(model, TASK, 0))
    assert single.labels(model, TASK) is None
    labelled = GivenStart(each, (3, 7, 5))
    assert_equal(labelled.weights(model, TASK, 7), start.weights(model, TASK, 1))
    with pytest.raises(InvalidInput, match="seeds = 1: weights are given for seeds 3, 7, 5"):
        labelled.weights(model, TASK, 1)
    with pytest.raises(InvalidInput, match="weights are given for 3 seeds"):
        GivenStart(each, (3, 7)).weights(model, TASK, 3)
    assert_equal(single.weights(model, TASK, 0), single.weights(model, TASK, 9))


def test_given_weights_are_copied() -> None:
    array = np.ones(2)
    start = GivenStart({"v": array, "k": np.ones((2, 1, 4)), "q": np.ones((2, 1, 4))})
    array[0] = 5.0
    assert start.weights(SeparateAttention(2), TASK, 0)["v"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomStart(0.0), "init_scale = 0.0: must be a finite number above 0"),
        (lambda: RandomStart(float("nan")), "init_scale = nan"),
        (lambda: BalancedStart(-1.0), "init_scale = -1"),
        (lambda: BalancedStart(1.0, "up"), "direction = 'up': must be 'random' or 'aligned'"),
        (lambda: FixedPointStart((0, 0)), r"subset = \(0, 0\): must name each eigenvector once"),
        (lambda: FixedPointStart((-1,)), "subset = -1"),
        (lambda: FixedPointStart((0,), -1.0), "init_scale = -1"),
        (lambda: EigenvectorStart(-1), "direction = -1"),
        (lambda: EigenvectorStart(0, 0.0), "init_scale = 0"),
        (lambda: GivenStart({"v": np.array([np.inf])}), r"weights\['v'\] = .*finite"),
    ],
)
def test_starts_that_cannot_be_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("start", "model", "task", "message"),
    [
        (FixedPointStart((4,)), SeparateAttention(4), TASK, r"subset = \(4,\): must name eigenv"),
        (FixedPointStart((0,)), SeparateAttention(4), CROSSED, "subset = .*commute"),
        (FixedPointStart((0,)), SeparateAttention(4), DATA, "subset = .*known moments"),
        (FixedPointStart((0, 1)), SeparateAttention(1), TASK, "heads × rank = 1: cannot carry 2"),
        (EigenvectorStart(4), SeparateAttention(4), TASK, "direction = 4: must"),
        (EigenvectorStart(0), SeparateAttention(4), DATA, "direction = 0: .*known moments"),
        (BalancedStart(1.0, "aligned"), SeparateAttention(4), TASK, "direction = .*needs merged"),
        (BalancedStart(1.0, "aligned"), MergedAttention(4), DATA, "direction = .*known moments"),
        (GivenStart({"v": np.ones(4)}), SeparateAttention(4), TASK, "weights = .*must name v, k"),
    ],
)
def test_starts_that_do_not_fit_are_refused(
    start: AbstractStart, model: AbstractAttention, task, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        start.weights(model, task, 0)
    assert "\n" not in str(refusal.value)


def test_a_fixed_point_along_a_direction_without_inputs_is_refused() -> None:
    # Where an eigenvalue is zero nothing can be learned: ξ = 0/0.
    flat = InContextRegression([1.0, 0.0], context_length=5)
    with pytest.raises(InvalidInput, match="subset"):
        FixedPointStart((1,)).weights(SeparateAttention(2), flat, 0)


def test_given_weights_for_fewer_seeds_are_refused() -> None:
    start = GivenStart(RandomStart().ensemble(SeparateAttention(2), TASK, np.arange(3)))
    with pytest.raises(InvalidInput, match="seed"):
        start.weights(SeparateAttention(2), TASK, 3)
