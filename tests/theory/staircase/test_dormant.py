"""Dormant heads as particles: against Carlson's integrals, an ODE solver, and training (T18)."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import elliprf

import saddlescope as ss
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory import dormant_staircase, first_drop_times, runaway_times

TASK = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
DRIVE = np.array([0.4, 0.3, 0.2, 0.1]) ** 2


def carlson(v: float, k: float, q: float) -> float:
    """c t* of a head on one mode."""
    first = elliprf(v * v, k * k, q * q)
    if v * k * q > 0:
        return first
    least, *larger = np.sort(np.square([v, k, q]))
    return 2 * elliprf(0, *(np.array(larger) - least)) - first


@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, 1), (1, -1, 1), (-1, -1, -1), (-1, 1, -1)])
def test_on_one_mode_it_is_carlsons_integral(signs: tuple[int, int, int]) -> None:
    task, model = ss.InContextRegression([0.5], context_length=20), ss.SeparateAttention(heads=1)
    sizes = np.random.default_rng(0).uniform(0.2, 3, size=(40, 3)) * 0.01
    # Beside the separatrix, where the two smallest are nearly the same.
    sizes[:5, 1] = sizes[:5, 0] * (1 + np.geomspace(1e-9, 1e-2, 5))
    v, k, q = (sizes * signs).T
    weights = {"v": v[:, None], "k": k[:, None, None, None], "q": q[:, None, None, None]}
    expected = [carlson(*row) / 0.25 for row in zip(v, k, q, strict=True)]
    np.testing.assert_allclose(runaway_times(model, task, weights)[:, 0], expected, rtol=1e-7)


@pytest.mark.parametrize("rank", [1, 2])
def test_it_is_where_an_ode_solver_says(rank: int) -> None:
    """The small-map flow of v, k and q themselves, not of θ."""
    model = ss.SeparateAttention(heads=3, rank=rank)
    starts = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(4))
    times = runaway_times(model, TASK, starts)
    assert times.shape == (4, 3)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        v, (k, q) = state[0], state[1:].reshape(2, rank, 4)
        moved = [v * DRIVE * q, v * DRIVE * k]
        return np.concatenate([[(DRIVE * k * q).sum()], np.ravel(moved)])

    def far(_: float, state: np.ndarray) -> float:
        return abs(state[0]) - 1e3

    far.terminal = True
    for seed, head in np.ndindex(4, 3):
        own = [starts[name][seed, head] for name in "vkq"]
        begin = np.concatenate([np.ravel(part) for part in own])
        options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-15, "events": far}
        path = solve_ivp(flow, (0, 1e9), begin, **options)
        expected = path.t[-1] + 1 / (DRIVE[0] * 1e3)
        np.testing.assert_allclose(times[seed, head], expected, rtol=1e-7)


def test_times_are_inversely_proportional_to_the_scale() -> None:
    model = ss.SeparateAttention(heads=5)
    one, small = (
        runaway_times(model, TASK, ss.RandomStart(scale).ensemble(model, TASK, np.arange(50)))
        for scale in (1.0, 1e-6)
    )
    np.testing.assert_allclose(small * 1e-6, one, rtol=1e-9)


def test_first_drops_of_any_rank_are_those_of_training() -> None:
    """T18: at w = .01 and rank two off by 2e-4 at worst."""
    model, flow = ss.SeparateAttention(heads=3, rank=2), ss.GradientFlow(until=8000)
    run = ss.train(model, TASK, init_scale=0.01, seeds=8, method=flow, keep="drops")
    trained = run.summary()["drop_time"][:, 0].to_numpy()
    starts = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(8))
    predicted = first_drop_times(model, TASK, starts)
    seen = np.isfinite(trained)
    assert seen.sum() >= 6
    np.testing.assert_allclose(predicted[seen], trained[seen], rtol=2e-4)


@pytest.mark.parametrize(("heads", "rank"), [(5, 1), (3, 2)])
def test_the_staircase_is_that_of_training_to_the_order_of_the_scale(heads: int, rank: int) -> None:
    """T18: at w = .001 off by 5e-5 in the median and 5e-3 at worst; of a head's own pairs less."""
    model, until = ss.SeparateAttention(heads, rank), 600_000.0
    run = ss.train(
        model, TASK, init_scale=1e-3, seeds=4, method=ss.GradientFlow(until), keep="drops"
    )
    trained = run.summary()["drop_time"].to_numpy()
    starts = ss.RandomStart(1e-3).ensemble(model, TASK, np.arange(4))
    found = dormant_staircase(model, TASK, starts)
    assert found.direction.tolist() == [0, 1, 2, 3]
    seen = np.isfinite(trained)
    assert seen.sum() >= 14
    if rank == 2:
        assert (found.head[:, 1] == found.head[:, 0]).all()
        np.testing.assert_allclose(found.time[:, 1], trained[:, 1], rtol=1e-5)
    assert (found.time[~seen] > 0.99 * until).all()
    errors = np.abs(found.time[seen] / trained[seen] - 1)
    assert np.median(errors) < 2e-4
    assert errors.max() < 1e-2
    assert (found.margin >= 0).all()
    assert all(len(set(row)) == 4 // rank for row in found.head)
    np.testing.assert_allclose(found.time[:, 0], first_drop_times(model, TASK, starts), rtol=1e-12)


def test_one_seed_is_as_it_is_among_many() -> None:
    model = ss.SeparateAttention(heads=5)
    many = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(40))
    alone = {name: array[7] for name, array in many.items()}
    together, single = dormant_staircase(model, TASK, many), dormant_staircase(model, TASK, alone)
    np.testing.assert_allclose(single.time, together.time[7], rtol=1e-12)
    np.testing.assert_array_equal(single.head, together.head[7])
    np.testing.assert_allclose(
        runaway_times(model, TASK, alone), runaway_times(model, TASK, many)[7], rtol=1e-12
    )


def test_with_fewer_heads_than_modes_each_head_drops_once() -> None:
    model = ss.SeparateAttention(heads=2)
    starts = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(5))
    found = dormant_staircase(model, TASK, starts)
    assert found.time.shape == (5, 2)
    assert (np.diff(found.time, axis=1) > 0).all()
    assert np.isinf(found.margin[:, 1]).all()


def test_a_head_that_nothing_moves_never_runs_away() -> None:
    model = ss.SeparateAttention(heads=1)
    still = {"v": [0.0], "k": [[[0.0] * 4]], "q": [[[0.0] * 4]]}
    assert runaway_times(model, TASK, still).tolist() == [np.inf]


@pytest.mark.parametrize("weak", [1e-6, 1e-12])
def test_a_mode_that_is_hardly_driven_changes_nothing(weak: float) -> None:
    model, strong = ss.SeparateAttention(heads=2), ss.InContextRegression([1.0], 31)
    task = ss.InContextRegression([1.0, weak], 31)
    both = ss.RandomStart(0.01).ensemble(model, task, np.arange(100))
    first = {name: array if name == "v" else array[..., :1] for name, array in both.items()}
    alone = runaway_times(model, strong, first)
    np.testing.assert_allclose(runaway_times(model, task, both), alone, rtol=1e-10)


def test_where_it_does_not_hold_it_says_so() -> None:
    merged = ss.MergedAttention(heads=2)
    with pytest.raises(InvalidInput, match="must be separate"):
        runaway_times(merged, TASK, ss.RandomStart().ensemble(merged, TASK, np.arange(2)))
    model = ss.SeparateAttention(heads=2)
    rotating = ss.InContextRegression([1, 0.3], 31, [0.5, 0.9], [1, 1])
    with pytest.raises(TheoryDoesNotApply, match="a learned head may rotate"):
        dormant_staircase(model, rotating, ss.RandomStart().ensemble(model, rotating, np.arange(2)))


def test_on_the_separatrix_a_head_never_runs_away() -> None:
    """Where the two smallest of v², k², q² tie it comes to rest, and the drop never comes."""
    model = ss.SeparateAttention(heads=1)
    for v, k, q in ((-0.01, 0.01, 0.01), (0.0, 0.02, 0.0), (-0.01, 0.01, 0.03)):
        tied = {"v": [v], "k": [[[k, 0, 0, 0]]], "q": [[[q, 0, 0, 0]]]}
        assert runaway_times(model, TASK, tied).tolist() == [np.inf]


def test_a_head_runs_away_along_what_it_has() -> None:
    """On the second mode alone it is Z eq. 68 of that mode; with nothing to grow it never does."""
    model, task = ss.SeparateAttention(heads=1), ss.InContextRegression([1, 0.1], 31)

    def time(v: float, k: list[float], q: list[float]) -> float:
        return float(runaway_times(model, task, {"v": [v], "k": [[k]], "q": [[q]]})[0])

    drive = ss.theory.modes(task).drive[1]
    assert time(0.01, [0, 0.01], [0, 0.01]) == pytest.approx(1 / (drive * 0.01), rel=1e-9)
    assert time(0.01, [0, 0], [0, 0]) == np.inf
    # k + q = 0 and v above zero: what there is decays.
    assert time(0.02, [0.01, 0], [-0.01, 0]) == np.inf
