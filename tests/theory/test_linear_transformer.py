"""T15: the logistic, unbalanced and coupled modes, against their equations and one another."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from saddlescope.errors import InvalidInput
from saddlescope.task import Spectrum
from saddlescope.theory.linear_transformer import (
    coupled_fixed_point,
    coupled_modes,
    coupled_plateau_losses,
    coupling_coefficient,
    logistic_modes,
    unbalanced_modes,
)

SPECTRUM = np.array([1.0, 0.6, 0.35, 0.15])


def solve(velocity, start, times):
    return solve_ivp(
        velocity, (0, times[-1]), start, method="LSODA", rtol=1e-12, atol=1e-14, t_eval=times
    ).y.T


def frozen_value_path(s, length, p, q, times):
    """ŷ = WΣ̂(pq)x_q: each mode by its own two equations."""
    saturation = ((length + 1) * s + s.sum()) / length

    def velocity(_, state):
        p, q = np.split(state, 2)
        left = s**2 * (1 - saturation * p * q)
        return np.concatenate([q * left, p * left])

    p, q = np.split(solve(velocity, np.concatenate([p, q]), times), 2, axis=1)
    return p * q


class MatrixFlow:
    """Gradient flow of ½E‖Wx − p₂WΣ̂q₁x‖² on whole matrices, from moments by brute force."""

    def __init__(self, spectrum, length, tasks):
        s, basis = spectrum.matrix, spectrum.basis
        self.size = len(s)
        self.inputs = s
        # E[Σ̂_ab Σ̂_cd] by Isserlis.
        self.wishart = np.einsum("ab,cd->abcd", s, s)
        self.wishart += np.einsum("ac,bd->abcd", s, s) / length
        self.wishart += np.einsum("ad,bc->abcd", s, s) / length
        # E[W_ab W_cd]: signs have the first two moments of Gaussians, which is all that enters.
        if tasks == "aligned":
            maps = [(basis * signs) @ basis.T for signs in product((-1, 1), repeat=self.size)]
            self.tasks = np.mean([np.multiply.outer(w, w) for w in maps], axis=0)
        else:
            eye = np.eye(self.size)
            self.tasks = np.einsum("ac,bd->abcd", eye, eye) / self.size

    def unpack(self, state):
        return state.reshape(2, self.size, self.size)

    def parts(self, state):
        """E[WᵀpW] and E[(WΣ̂)_ab (WΣ̂)_cd]."""
        p, _ = self.unpack(state)
        seen = np.einsum("abcd,ac->bd", self.tasks, p)
        return seen, np.einsum("aecf,ebfd->abcd", self.tasks, self.wishart)

    def loss(self, state):
        """E‖·‖², without the half."""
        p, q = self.unpack(state)
        seen, pairs = self.parts(state)
        cross = np.einsum("bd,de,ef,fb->", seen, self.inputs, q, self.inputs)
        inner = q @ self.inputs @ q.T
        square = np.einsum("ac,abcd,bd->", p.T @ p, pairs, inner)
        power = np.einsum("abac,bc->", self.tasks, self.inputs)
        return power - 2 * cross + square

    def velocity(self, _, state):
        p, q = self.unpack(state)
        seen, pairs = self.parts(state)
        inner = q @ self.inputs @ q.T
        p_drive = np.einsum("abcd,db->ac", self.tasks, self.inputs @ q @ self.inputs)
        p_cost = p @ np.einsum("abcd,bd->ac", pairs, inner)
        q_drive = (self.inputs @ seen @ self.inputs).T
        q_cost = np.einsum("abcd,ac->bd", pairs, p.T @ p) @ q @ self.inputs
        return np.concatenate([(p_drive - p_cost).ravel(), (q_drive - q_cost).ravel()])


def rotated(values, seed=3):
    generator = np.random.default_rng(seed)
    return Spectrum(values, np.linalg.qr(generator.standard_normal((len(values),) * 2))[0])


@pytest.mark.parametrize("length", [1, 10, 2000])
@pytest.mark.parametrize("start", [1e-6, 1e-3, 0.4, 5.0, -0.3])
def test_logistic_against_its_equation(length, start):
    times = np.linspace(0, 40, 50)
    root = np.sqrt(abs(start)) * np.ones(4)
    solved = frozen_value_path(SPECTRUM, length, root, np.sign(start) * root, times)
    curves = logistic_modes(SPECTRUM, length, start, times)
    np.testing.assert_allclose(curves.amplitude, solved, rtol=0, atol=1e-8)


def test_logistic_is_the_papers_formula():
    times, start = np.linspace(0, 30, 40), np.array([1e-3, 2e-3, 0.1, 0.3])
    curves = logistic_modes(SPECTRUM, 20, start, times)
    limit = 20 / (21 * SPECTRUM + SPECTRUM.sum())
    decay = np.exp(-2 * np.outer(times, SPECTRUM**2))
    curve = limit * start / (start + (limit - start) * decay)
    np.testing.assert_allclose(curves.limit, limit, rtol=1e-14)
    np.testing.assert_allclose(curves.amplitude, curve, rtol=1e-12)
    half = np.log((limit - start) / start) / (2 * SPECTRUM**2)
    np.testing.assert_allclose(curves.half_time, half, rtol=1e-12)
    terms = SPECTRUM * (SPECTRUM * curve**2 / limit - 2 * SPECTRUM * curve + 1)
    np.testing.assert_allclose(curves.loss, terms.sum(1), rtol=1e-12)


@given(p=st.floats(-2, 2), q=st.floats(-2, 2), length=st.integers(1, 300))
def test_unbalanced_against_its_equation(p, q, length):
    # Near p = −q an error of the solver, 1e-12 of p, grows as p + q does.
    assume(abs(p + q) > 1e-2 or p + q == 0)
    times, ones = np.linspace(0, 25, 20), np.ones(4)
    solved = frozen_value_path(SPECTRUM, length, p * ones, q * ones, times)
    curves = unbalanced_modes(SPECTRUM, length, p, q, times)
    np.testing.assert_allclose(curves.amplitude, solved, rtol=0, atol=1e-8)


def test_unbalanced_is_the_stated_closed_form_and_joins_the_logistic():
    p, q, length, times = np.array([0.4, 0.02]), np.array([0.1, 0.5]), 30, np.linspace(0, 9, 30)
    s = np.array([1.0, 0.7])
    curves = unbalanced_modes(s, length, p, q, times)
    c = np.abs(p**2 - q**2)
    kappa = c * ((length + 1) * s + s.sum()) / length / 2
    g, u = np.sqrt(1 + kappa**2), np.tanh(np.arcsinh(2 * p * q / c) / 2)
    h, tanh = u + kappa, np.tanh(g * times[:, None] * s**2)
    u = -kappa + g * (h + g * tanh) / (g + h * tanh)
    np.testing.assert_allclose(curves.amplitude, c * u / (1 - u**2), rtol=1e-11)
    near = unbalanced_modes(s, length, 0.1 + 1e-9, 0.1, times).amplitude
    np.testing.assert_allclose(
        near, logistic_modes(s, length, 0.01, times).amplitude, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.1), (0.5, 1e-3), (1e-6, 1e-6), (0.6, -0.2)])
def test_half_time_is_when_half_is_reached(p, q):
    half = unbalanced_modes(SPECTRUM, 15, p, q, [0]).half_time
    for mode, time in enumerate(half):
        curves = unbalanced_modes(SPECTRUM, 15, p, q, [time])
        assert curves.amplitude[0, mode] == pytest.approx(curves.limit[mode] / 2, rel=1e-10)


def test_half_time_is_told_only_where_there_is_one():
    assert np.isnan(logistic_modes(SPECTRUM, 15, [5.0, -0.1, 0.0, 7.0], [0]).half_time).all()


@pytest.mark.parametrize("length", [1, 10, 100])
def test_coupled_modes_are_the_full_matrix_flow(length):
    spectrum = rotated([1.0, 0.6, 0.2])
    p, q = np.array([0.3, 0.2, 0.4]), np.array([0.1, 0.25, 0.3])
    times = np.linspace(0, 30, 25)
    flow = MatrixFlow(spectrum, length, "aligned")
    turn = spectrum.basis
    start = np.concatenate([((turn * modes) @ turn.T).ravel() for modes in (p, q)])
    path = solve(flow.velocity, start, times)
    found = coupled_modes(spectrum, length, p, q, times)
    modes = turn.T @ path.reshape(-1, 2, 3, 3) @ turn
    for matrices, curves in ((modes[:, 0], found.p), (modes[:, 1], found.q)):
        expected = curves[:, :, None] * np.eye(3)
        np.testing.assert_allclose(matrices, expected, rtol=0, atol=1e-8)
    losses = [flow.loss(state) for state in path]
    np.testing.assert_allclose(found.loss, losses, rtol=0, atol=1e-8)


def test_matrix_flow_descends_its_loss():
    """The reference's two formulas are derivatives of one another."""
    for tasks in ("aligned", "independent"):
        flow = MatrixFlow(rotated([1.0, 0.3]), 4, tasks)
        state = np.random.default_rng(0).standard_normal(8)
        steps = 1e-5 * np.eye(8)
        slope = [(flow.loss(state + d) - flow.loss(state - d)) / 2e-5 for d in steps]
        np.testing.assert_allclose(flow.velocity(0, state), -0.5 * np.array(slope), atol=1e-8)


def test_independent_tasks_keep_the_value_a_multiple_of_the_identity():
    spectrum = rotated([1.0, 0.6, 0.2])
    flow = MatrixFlow(spectrum, 10, "independent")
    query = 0.1 * np.random.default_rng(1).standard_normal((3, 3))
    times = np.linspace(0, 20, 10)
    path = solve(flow.velocity, np.concatenate([0.2 * np.eye(3).ravel(), query.ravel()]), times)
    values = path.reshape(-1, 2, 3, 3)[:, 0]
    np.testing.assert_allclose(values, values[:, :1, :1] * np.eye(3), rtol=0, atol=1e-10)
    assert np.ptp(values[:, 0, 0]) > 0.5


@pytest.mark.parametrize("tasks", ["aligned", "independent"])
def test_norms_differ_by_what_they_did(tasks):
    flow = MatrixFlow(rotated([1.0, 0.6, 0.2]), 10, tasks)
    start = 0.4 * np.random.default_rng(2).standard_normal(18)
    path = solve(flow.velocity, start, np.linspace(0, 20, 10)).reshape(-1, 2, 9)
    balance = (path[:, 0] ** 2 - path[:, 1] ** 2).sum(-1)
    np.testing.assert_allclose(balance, balance[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("length", [1, 3, 10, 100])
def test_fixed_point_is_the_limit(length):
    spectrum = [1.0, 0.6, 0.35, 0.05]
    curves = coupled_modes(spectrum, length, 0.3, 0.2, [0, 1e4, 1e5])
    rest = curves.fixed_point
    np.testing.assert_allclose(curves.amplitude[-1], rest.amplitude, rtol=0, atol=1e-7)
    assert curves.loss[-1] == pytest.approx(rest.loss, abs=1e-8)
    assert rest.active.tolist() == (rest.amplitude > 0).tolist()


def test_weak_modes_are_never_learned_in_short_contexts():
    assert coupled_fixed_point(SPECTRUM, 1).active.tolist() == [True, True, True, False]
    assert coupled_fixed_point(SPECTRUM, 100).active.all()
    no_input = coupled_fixed_point([1.0, 0.0], 5)
    assert no_input.active.tolist() == [True, False]
    assert no_input.loss == pytest.approx(1 - 5 / 6 * (1 - 1 / 7))


@pytest.mark.parametrize(("length", "error"), [(10, 0.84), (100, 0.14), (2000, 0.008)])
def test_error_of_the_logistic(length, error):
    """THEORY's numbers, which have two digits (one at N = 2000)."""
    times, root = np.linspace(0, 600, 6001), np.sqrt(1e-3)
    logistic = logistic_modes(SPECTRUM, length, 1e-3, times)
    coupled = coupled_modes(SPECTRUM, length, root, root, times)
    apart = np.abs(logistic.amplitude - coupled.amplitude)[:, -1].max() / logistic.limit[-1]
    assert apart == pytest.approx(error, abs=0.005 if length < 2000 else 0.0005)


def test_each_says_where_it_is_exact():
    assert "frozen" in logistic_modes([1.0], 5, 0.1, [0]).exact_for
    assert "aligned" in coupled_modes([1.0], 5, 0.1, 0.1, [0]).exact_for


@pytest.mark.parametrize("solve_modes", [unbalanced_modes, coupled_modes])
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"spectrum": [-1.0]}, "spectrum"),
        ({"context_length": 0}, "context_length"),
        ({"p": [1.0, 2.0, 3.0]}, "p.shape"),
        ({"q": np.nan}, "q"),
        ({"times": [2.0, 1.0]}, "times"),
        ({"times": [-1.0]}, "times"),
        ({"times": []}, "times"),
        ({"spectrum": [0.5, 1.0], "p": [0.1, 0.2]}, "p"),
    ],
)
def test_nonsense_is_refused(solve_modes, changed, field):
    given = {"spectrum": [1.0, 0.5], "context_length": 9, "p": 0.1, "q": 0.1, "times": [1.0]}
    with pytest.raises(InvalidInput) as refused:
        solve_modes(**{**given, **changed})
    assert refused.value.field == field


def test_the_plateaus_are_the_rests_of_the_first_modes():
    levels = coupled_plateau_losses(SPECTRUM, 20)
    assert levels[0] == pytest.approx(SPECTRUM.sum())
    for learned in range(1, 5):
        start = np.where(np.arange(4) < learned, 0.3, 0.0)
        curves = coupled_modes(SPECTRUM, 20, start, start, [0.0, 1e5])
        # Modes are followed to a relative 1e-10.
        assert curves.loss[-1] == pytest.approx(levels[learned], rel=1e-8)


def test_the_coefficient_of_the_coupling_is_that_of_long_contexts():
    length = 10**6
    limit = logistic_modes(SPECTRUM, length, 1e-3, [0.0]).limit
    distance = coupled_fixed_point(SPECTRUM, length).amplitude / limit - 1
    # The next order is that of 1/N.
    np.testing.assert_allclose(length * distance, coupling_coefficient(SPECTRUM), rtol=1e-4)
    with pytest.raises(InvalidInput, match="spectrum"):
        coupling_coefficient([1.0, 0.0])
