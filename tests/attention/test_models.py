"""What every model of attention promises, asserted of each of them."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.arrays import _FUSED_PRODUCTS as FUSED_PRODUCTS
from saddlescope.attention import (
    AbstractAttention,
    ConvolutionalNetwork,
    MergedAttention,
    SeparateAttention,
    TwoLayerNetwork,
    Weights,
)
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_float64
from saddlescope.task import Prompts

MODELS: list[tuple[AbstractAttention, int]] = [
    (MergedAttention(heads=3), 3),
    (SeparateAttention(heads=3, rank=1), 3),
    (SeparateAttention(heads=2, rank=3), 3),
    (TwoLayerNetwork(heads=3), 3),
    (ConvolutionalNetwork(heads=3), 3),
    # Large enough for matrix products in place of fused loops.
    (SeparateAttention(heads=4, rank=3), 8),
]
assert FUSED_PRODUCTS < 4 * 3 * 8**2
each_model = pytest.mark.parametrize(
    ("model", "dimension"),
    MODELS,
    ids=["merged", "separate", "rank three", "two layers", "convolution", "matrix products"],
)

# Sums of at most a hundred products of numbers of order one.
ROUNDING = 1e-13


def random_weights(model: AbstractAttention, dimension: int, seed: int = 0) -> Weights:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal(shape) for n, shape in model.shapes(dimension).items()}


def random_matrix(dimension: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((dimension, dimension))


def rotation(dimension: int) -> np.ndarray:
    return np.linalg.qr(random_matrix(dimension, seed=2))[0]


def one_pair(summary: np.ndarray, query: np.ndarray) -> Prompts:
    """Prompts of one pair with label 1: their β is its input."""
    labels = np.stack([np.ones(len(query)), np.zeros(len(query))], axis=1)
    return Prompts(np.stack([summary, query], axis=1), labels)


def to_jax(weights: Weights) -> Weights:
    """The same weights as JAX arrays; float64 within `in_float64`."""
    return {name: jnp.asarray(array) for name, array in weights.items()}


def assert_close(these: Weights, those: Weights, atol: float = ROUNDING) -> None:
    assert set(these) == set(those)
    for name, array in these.items():
        np.testing.assert_allclose(array, those[name], atol=atol, err_msg=name)


@in_float64
def differentiated(model: AbstractAttention, weights: Weights, force: np.ndarray) -> Weights:
    """The force on the weights by automatic differentiation of the effective map."""
    _, pull = jax.vjp(model.effective_map, to_jax(weights))
    (pulled,) = pull(jnp.asarray(force))
    return pulled  # type: ignore[no-any-return]


@each_model
def test_pull_back_is_the_derivative_of_the_map(model: AbstractAttention, dimension: int) -> None:
    weights, force = random_weights(model, dimension), random_matrix(dimension)
    assert_close(model.pull_back(weights, force), differentiated(model, weights, force))


@each_model
@pytest.mark.parametrize("gain", [1.0, 5.0])
def test_pull_back_is_the_derivative_of_the_loss_on_prompts(
    model: AbstractAttention, dimension: int, gain: float
) -> None:
    weights = random_weights(model, dimension)
    random = np.random.default_rng(3)
    summary, query = random.standard_normal((2, 20, dimension))
    target = random.standard_normal(20)

    @in_float64
    def half_descent() -> Weights:
        def loss(at: Weights) -> jax.Array:
            return jnp.mean((target - model.predict(at, one_pair(summary, query), gain)) ** 2)

        return jax.tree.map(lambda slope: -slope / 2, jax.grad(loss)(to_jax(weights)))  # type: ignore

    residual = target - model.predict(weights, one_pair(summary, query), gain)
    force = np.einsum("p,pa,pb->ab", residual, summary, query) / len(target)
    scale = max(1.0, np.abs(force).max() * gain)
    assert_close(model.pull_back(weights, gain * force), half_descent(), atol=1e-12 * scale)


@each_model
def test_predictions_are_those_of_the_effective_map(
    model: AbstractAttention, dimension: int
) -> None:
    weights = random_weights(model, dimension)
    summary, query = np.random.default_rng(4).standard_normal((2, 7, dimension))
    expected = np.einsum("pa,ab,pb->p", summary, model.effective_map(weights, 2.0), query)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        model.predict(weights, one_pair(summary, query), 2.0),
        expected,
        atol=ROUNDING * scale,
    )


@each_model
def test_the_map_is_homogeneous_in_the_weights(model: AbstractAttention, dimension: int) -> None:
    weights = random_weights(model, dimension)
    doubled = {name: 2 * array for name, array in weights.items()}
    expected = 2**model.degree * model.effective_map(weights)
    np.testing.assert_allclose(model.effective_map(doubled), expected, rtol=1e-12)
    # Section 0: weights w/g^(1/degree) with gain g compute what w compute with gain 1.
    shrunk = {name: array / 31 ** (1 / model.degree) for name, array in weights.items()}
    np.testing.assert_allclose(
        model.effective_map(shrunk, 31.0), model.effective_map(weights), atol=ROUNDING * 10
    )


@each_model
def test_rotation_is_a_change_of_coordinates(model: AbstractAttention, dimension: int) -> None:
    weights, basis = random_weights(model, dimension), rotation(dimension)
    turned = model.rotate(weights, basis)
    summary, query = np.random.default_rng(5).standard_normal((2, 6, dimension))
    before = model.predict(weights, one_pair(summary, query))
    after = model.predict(turned, one_pair(summary @ basis, query @ basis))
    np.testing.assert_allclose(after, before, atol=1e-12 * np.abs(before).max())
    assert_close(model.conserved(turned), model.conserved(weights), atol=1e-12)
    assert_close(model.rotate(turned, basis.T), weights)


@each_model
def test_rotation_takes_axes_in_front(model: AbstractAttention, dimension: int) -> None:
    # Trajectories rotate the weights of all seeds and times at once.
    each = [random_weights(model, dimension, seed) for seed in range(6)]
    stacked = {n: np.stack([w[n] for w in each]) for n in each[0]}
    many = {n: array.reshape(2, 3, *array.shape[1:]) for n, array in stacked.items()}
    turned = model.rotate(many, rotation(dimension))
    for place, weights in enumerate(each):
        one = {name: array[place // 3, place % 3] for name, array in turned.items()}
        assert_close(one, model.rotate(weights, rotation(dimension)))


@each_model
def test_any_force_keeps_what_is_conserved(model: AbstractAttention, dimension: int) -> None:
    weights, force = random_weights(model, dimension), random_matrix(dimension)

    @in_float64
    def rate() -> Weights:
        moving = model.pull_back(to_jax(weights), jnp.asarray(force))
        return jax.jvp(model.conserved, (to_jax(weights),), (moving,))[1]  # type: ignore

    for name, array in rate().items():
        np.testing.assert_allclose(array, 0, atol=1e-12, err_msg=name)
        assert len(model.conserved_axes[name]) == array.ndim


@each_model
def test_balanced_weights_conserve_zero(model: AbstractAttention, dimension: int) -> None:
    balanced = model.balance(random_weights(model, dimension))
    for name, array in model.conserved(balanced).items():
        np.testing.assert_allclose(array, 0, atol=ROUNDING, err_msg=name)
    assert_close(model.balance(balanced), balanced)


def test_conserved_quantities_are_those_of_t14() -> None:
    merged = MergedAttention(heads=3)
    weights = random_weights(merged, 2)
    v, rows = weights["v"], weights["U"].reshape(3, -1)
    expected = np.outer(v, v) - rows @ rows.T
    assert_close(merged.conserved(weights), {"value_balance": expected})
    separate = SeparateAttention(heads=3, rank=2)
    weights = random_weights(separate, 4)
    keys, queries = (np.sum(weights[name] ** 2, axis=-1) for name in ("k", "q"))
    expected_balances = {
        "key_query_balance": keys - queries,
        "key_value_balance": keys.sum(1) - weights["v"] ** 2,
    }
    assert_close(separate.conserved(weights), expected_balances)


def with_the_same_map(model: AbstractAttention, wanted: np.ndarray, seed: int) -> Weights:
    """Random weights whose effective map is the wanted one."""
    random, dimension = np.random.default_rng(seed), len(wanted)
    attention = MergedAttention(model.heads)
    if isinstance(model, MergedAttention | TwoLayerNetwork):
        weights = random_weights(attention, dimension, seed)
        others = np.tensordot(weights["v"][1:], weights["U"][1:], axes=1)
        weights["U"][0] = (wanted - others) / weights["v"][0]
    else:
        rank = model.rank if isinstance(model, SeparateAttention) else 1
        weights = random_weights(SeparateAttention(model.heads, rank), dimension, seed)
        keys = (weights["v"][:, None, None] * weights["k"]).reshape(-1, dimension)
        shape = weights["q"].shape
        free = random.standard_normal((len(keys), dimension))
        # A particular solution of keysᵀ Q = W, and anything that the keys do not see.
        unseen = free - np.linalg.pinv(keys.T) @ (keys.T @ free)
        weights["q"] = (np.linalg.pinv(keys.T) @ wanted + unseen).reshape(shape)
    if isinstance(model, TwoLayerNetwork | ConvolutionalNetwork):
        weights = model.from_attention(weights)
    return weights


def squared_norm(weights: Weights) -> float:
    return float(sum((array**2).sum() for array in weights.values()))


@each_model
def test_realised_weights_have_the_map_and_the_least_norm(
    model: AbstractAttention, dimension: int
) -> None:
    wanted = random_matrix(dimension, seed=6)
    weights = model.realise(wanted)
    np.testing.assert_allclose(model.effective_map(weights), wanted, atol=1e-12)
    for seed in range(5):
        other = with_the_same_map(model, wanted, seed)
        np.testing.assert_allclose(model.effective_map(other), wanted, atol=1e-9)
        assert squared_norm(other) > squared_norm(weights)


@each_model
def test_realised_weights_are_stationary(model: AbstractAttention, dimension: int) -> None:
    # Of ½‖w‖² under map(w) = W, stationarity is w = pull_back(w, μ) for some multiplier μ.
    weights = model.realise(random_matrix(dimension, seed=7))
    flat = np.concatenate([array.ravel() for array in weights.values()])
    columns = []
    for entry in range(dimension**2):
        unit = np.zeros(dimension**2)
        unit[entry] = 1.0
        pulled = model.pull_back(weights, unit.reshape(dimension, dimension))
        columns.append(np.concatenate([pulled[name].ravel() for name in weights]))
    jacobian = np.stack(columns, axis=1)
    multiplier, *_ = np.linalg.lstsq(jacobian, flat, rcond=None)
    np.testing.assert_allclose(jacobian @ multiplier, flat, atol=1e-9)
    for name, array in model.conserved(weights).items():
        np.testing.assert_allclose(array, 0, atol=1e-12, err_msg=name)


def test_at_higher_rank_the_strongest_directions_share_a_head() -> None:
    values, model = np.array([4.0, 2.0, 1.0, 0.5]), SeparateAttention(heads=2, rank=2)
    least = squared_norm(model.realise(np.diag(values)))
    # A head that carries ξ_r has squared norm 3 (Σ_r ξ_r)^(2/3) (T8).
    every_pairing = [
        3 * ((values[a] + values[b]) ** (2 / 3) + (values[c] + values[d]) ** (2 / 3))
        for a, b, c, d in permutations(range(4))
    ]
    assert least == pytest.approx(min(every_pairing), rel=1e-12)
    weights = model.realise(np.diag(values))
    np.testing.assert_allclose(weights["v"] ** 3, [6.0, 1.5], rtol=1e-12)


@each_model
def test_the_zero_map_is_realised_by_zero(model: AbstractAttention, dimension: int) -> None:
    weights = model.realise(np.zeros((dimension, dimension)))
    assert all(not array.any() for array in weights.values())
    assert {name: array.shape for name, array in weights.items()} == model.shapes(dimension)


def test_more_directions_than_heads_cannot_be_realised() -> None:
    with pytest.raises(InvalidInput, match="heads × rank = 2: cannot carry 3 directions"):
        SeparateAttention(heads=2).realise(np.diag([3.0, 2.0, 1.0]))
    SeparateAttention(heads=2).realise(np.diag([3.0, 2.0, 0.0]))


@each_model
def test_shapes_axes_and_capacity(model: AbstractAttention, dimension: int) -> None:
    shapes = model.shapes(dimension)
    assert list(shapes) == list(model.axes) == list(model.deviations(dimension))
    for name, axes in model.axes.items():
        assert len(axes) == len(shapes[name])
    ranks = [
        np.linalg.matrix_rank(model.effective_map(random_weights(model, dimension, seed)))
        for seed in range(3)
    ]
    assert set(ranks) == {model.capacity(dimension)}


def test_a_gain_needs_a_length() -> None:
    assert MergedAttention(2).gain(31) == 1.0
    assert MergedAttention(2).gain(None) == 1.0
    assert MergedAttention(2, "none").gain(31) == 31.0
    with pytest.raises(InvalidInput, match="normalisation = 'none': needs one fixed context"):
        MergedAttention(2, "none").gain(None)


def test_time_units_of_section_0() -> None:
    assert MergedAttention(2, "none").time_unit(31.0) == pytest.approx(31.0, rel=1e-15)
    assert SeparateAttention(2, 1, "none").time_unit(8.0) == pytest.approx(4.0, rel=1e-15)
    assert ConvolutionalNetwork(2).time_unit(1.0) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MergedAttention(0), "heads = 0: must be a whole number, at least 1"),
        (lambda: SeparateAttention(-1), "heads = -1"),
        (lambda: SeparateAttention(2, 0), "rank = 0: must be a whole number, at least 1"),
        (lambda: TwoLayerNetwork(True), "heads = True"),
        (lambda: ConvolutionalNetwork(2, "some"), "normalisation = 'some': must be 'context' or"),
    ],
)
def test_models_that_cannot_be_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


SEPARATE = SeparateAttention(heads=2, rank=1)
GOOD = {"v": np.ones(2), "k": np.ones((2, 1, 3)), "q": np.ones((2, 1, 3))}
ENSEMBLE = {name: np.stack([array] * 4) for name, array in GOOD.items()}


@pytest.mark.parametrize("given", [GOOD, ENSEMBLE])
def test_good_weights_become_float64(given: Weights) -> None:
    single = {name: array.astype(np.float32) for name, array in given.items()}
    for name, array in SEPARATE.check_weights(single, 3).items():
        assert array.dtype == np.float64
        assert array.shape == given[name].shape


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"v": np.ones(2)}, r"weights = \['v'\]: must name v, k, q"),
        ({**GOOD, "U": np.ones(2)}, r"weights = .*must name v, k, q"),
        ({**GOOD, "k": np.ones((2, 3))}, r"weights\['k'\]\.shape = \(2, 3\): must be \(2, 1, 3\)"),
        ({**GOOD, "v": np.ones(3)}, r"weights\['v'\]\.shape = \(3,\): must be \(2,\)"),
        ({**GOOD, "q": np.full((2, 1, 3), np.nan)}, r"weights\['q'\] = .*finite"),
        ({**ENSEMBLE, "k": np.ones((3, 2, 1, 3))}, r"weights\['k'\]\.shape = \(3, 2, 1, 3\)"),
        ({**ENSEMBLE, "q": GOOD["q"]}, r"weights\['q'\]\.shape = \(2, 1, 3\): must be \(4, 2,"),
    ],
)
def test_wrong_weights_are_refused_by_name(weights: Weights, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        SEPARATE.check_weights(weights, 3)
    assert "\n" not in str(refusal.value)
