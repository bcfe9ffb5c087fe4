"""The flow of T3 in NumPy and SciPy alone, which the theory is held against."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import LSODA, solve_ivp
from scipy.optimize import brentq

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.task import InContextRegression, Spectrum


class Flow:
    """Gradient flow of one model from given weights, by SciPy's LSODA."""

    def __init__(self, task: Any, weights: dict[str, Any]) -> None:
        self.moments = task.moments()
        self.start = np.concatenate([np.ravel(array) for array in weights.values()])
        ends = np.cumsum([np.size(array) for array in weights.values()])
        # Where each name's numbers are, and their shape.
        self.parts = {
            name: (slice(end - np.size(array), end), np.shape(array))
            for (name, array), end in zip(weights.items(), ends, strict=True)
        }

    def unpack(self, state: Any) -> dict[str, Any]:
        return {name: state[part].reshape(shape) for name, (part, shape) in self.parts.items()}

    def effective_map(self, weights: dict[str, Any]) -> Any:
        if "U" in weights:
            return np.tensordot(weights["v"], weights["U"], axes=1)
        return np.einsum("h,hrd,hre->de", weights["v"], weights["k"], weights["q"], optimize=False)

    def loss(self, state: Any) -> float:
        m, w = self.moments, self.effective_map(self.unpack(state))
        return m.label_power - 2 * np.sum(w * m.drive) + np.trace(w.T @ m.summary @ w @ m.query)

    def velocity(self, _: float, state: Any) -> Any:
        m, weights = self.moments, self.unpack(state)
        force = m.drive - m.summary @ self.effective_map(weights) @ m.query
        v = weights["v"][:, None, None]
        if "U" in weights:
            return np.concatenate([(weights["U"] * force).sum((1, 2)), (v * force).ravel()])
        pull, push = weights["q"] @ force.T, weights["k"] @ force
        speeds = [(weights["k"] * pull).sum((1, 2)), (v * pull).ravel(), (v * push).ravel()]
        return np.concatenate(speeds)

    def losses(self, times: Any, rtol: float = 1e-10) -> Any:
        """The loss at given times."""
        solution = solve_ivp(
            self.velocity,
            (0.0, times[-1]),
            self.start,
            method="LSODA",
            rtol=rtol,
            atol=1e-13,
            t_eval=times,
        )
        return np.array([self.loss(state) for state in solution.y.T])

    def drop_times(self, levels: Any, until: float) -> list[float]:
        """When the loss passes midway between each level and the next, by `until`."""
        solver = LSODA(self.velocity, 0.0, self.start, until, rtol=1e-9, atol=1e-12)
        middles, found = list((levels[1:] + levels[:-1]) / 2), []
        while solver.status == "running" and middles:
            solver.step()
            loss = self.loss(solver.y)
            while middles and loss < middles[0]:
                middle, path = middles.pop(0), solver.dense_output()
                found.append(
                    brentq(lambda t, m=middle, p=path: self.loss(p(t)) - m, solver.t_old, solver.t)
                )
        return found


@pytest.fixture(scope="session")
def flow_of() -> Callable[..., Flow]:
    return Flow


@pytest.fixture(scope="session")
def paper() -> InContextRegression:
    """The papers' setting of Figure 3."""
    return InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)


@pytest.fixture(scope="session")
def commuting() -> Callable[..., InContextRegression]:
    """A random task whose covariances commute, in a random basis, with noise and lengths (T17)."""

    def draw(dimension: int, seed: int, *, rotated: bool = True) -> InContextRegression:
        generator = np.random.default_rng(seed)
        inputs, tasks, queries = np.exp(generator.uniform(-1.5, 1, size=(3, dimension)))
        basis = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
        axes = basis if rotated else np.eye(dimension)
        low = int(generator.integers(1, 20))
        return InContextRegression(
            Spectrum(inputs, axes),
            {low: 0.25, low + 7: 0.75},
            task_covariance=Spectrum(tasks, axes),
            query_covariance=Spectrum(queries, axes),
            label_noise=float(generator.uniform(0, 1)),
        )

    return draw


@pytest.fixture(scope="session")
def crossing() -> Callable[..., InContextRegression]:
    """A random task whose covariances do not commute, with noise and lengths (T19).

    `ranks` are those of the covariances of inputs, tasks and queries.
    """

    def draw(
        dimension: int, seed: int, *, ranks: tuple[int, int, int] | None = None
    ) -> InContextRegression:
        generator = np.random.default_rng(seed)

        def covariance(rank: int) -> Spectrum:
            values = np.exp(generator.uniform(-1.5, 1, size=dimension))
            basis = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
            return Spectrum(np.where(np.arange(dimension) < rank, values, 0.0), basis)

        inputs, tasks, queries = map(covariance, ranks or (dimension,) * 3)
        low = int(generator.integers(1, 20))
        return InContextRegression(
            inputs,
            {low: 0.25, low + 7: 0.75},
            task_covariance=tasks,
            query_covariance=queries,
            label_noise=float(generator.uniform(0, 1)),
        )

    return draw


@pytest.fixture(scope="session")
def skewed() -> InContextRegression:
    """Covariances that do not commute."""
    return InContextRegression([0.4, 0.1], 31, task_covariance=[[1.0, 0.5], [0.5, 1.0]])


@pytest.fixture(scope="session")
def disagreeing() -> InContextRegression:
    """T17's case in which a learned head rotates."""
    return InContextRegression(
        [1.0, 0.3], 31, task_covariance=[0.5, 0.9], query_covariance=np.eye(2)
    )


@pytest.fixture(params=[MergedAttention(2), SeparateAttention(2)], ids=["merged", "separate"])
def model(request: pytest.FixtureRequest) -> Any:
    return request.param
