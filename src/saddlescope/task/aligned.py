"""In-context regression with vector labels, as Mainali and Teixeira have it (THEORY section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddlescope.checks import FloatArray, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task.base import AbstractTask
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments
from saddlescope.task.prompts import Statistics
from saddlescope.task.spectrum import Spectrum


@dataclass(frozen=True, eq=False, init=False)
class VectorPrompts:
    """Prompts with vector labels: `x, y[P, N+1, D]`, the query and its target last.

    >>> VectorPrompts(np.ones((3, 5, 2)), np.ones((3, 5, 2)))
    VectorPrompts(3 prompts, context_length=4, dimension=2)
    """

    x: FloatArray
    y: FloatArray

    def __init__(self, x: object, y: object) -> None:
        inputs = real_array("x", x, (None, None, None))
        count, tokens, dimension = inputs.shape
        if count == 0 or tokens < 2 or dimension == 0:
            raise InvalidInput(
                "x.shape", inputs.shape, "must be (P, N+1, D) with P, N and D at least 1"
            )
        object.__setattr__(self, "x", inputs)
        object.__setattr__(self, "y", real_array("y", y, inputs.shape))

    @property
    def count(self) -> int:
        """P, the number of prompts."""
        return self.x.shape[0]

    @property
    def context_length(self) -> int:
        """N, the number of context pairs in every prompt."""
        return self.x.shape[1] - 1

    @property
    def dimension(self) -> int:
        """D."""
        return self.x.shape[2]

    @property
    def fixed_length(self) -> int:
        """N, which all prompts have."""
        return self.context_length

    @property
    def lengths(self) -> FloatArray:
        """N for every prompt, [P]."""
        return np.full(self.count, float(self.context_length))

    @property
    def query(self) -> FloatArray:
        """The query of every prompt, [P, D]."""
        return self.x[:, -1]

    @property
    def target(self) -> FloatArray:
        """The query's target of every prompt, [P, D]."""
        return self.y[:, -1]

    def __repr__(self) -> str:
        return (
            f"VectorPrompts({self.count} prompts, context_length={self.context_length}, "
            f"dimension={self.dimension})"
        )


@dataclass(frozen=True, eq=False, init=False)
class AlignedRegression(AbstractTask):
    r"""In-context regression with vector labels $y = Wx$, $x \sim N(0, \Sigma_x)$ (section 6).

    - `spectrum`: $\Sigma_x$, as eigenvalues, a matrix, text or a `Spectrum`.
    - `context_length`: N, one number.
    - `tasks`: `"aligned"`, $W = U\,\mathrm{diag}(\lambda)\,U^\top$, $\lambda_\alpha \sim N(0, 1)$,
      U the eigenbasis of $\Sigma_x$; or `"independent"`, $W_{ij} \sim N(0, 1/D)$.

    >>> AlignedRegression([1, .5], context_length=8).sample(5, seed=0)
    VectorPrompts(5 prompts, context_length=8, dimension=2)
    """

    spectrum: Spectrum
    context_length: ContextLengths
    tasks: str

    def __init__(self, spectrum: object, context_length: object, tasks: str = "aligned") -> None:
        lengths = ContextLengths.make(context_length)
        if not lengths.is_fixed:
            raise InvalidInput("context_length", context_length, "must be one number")
        object.__setattr__(self, "spectrum", Spectrum.make(spectrum))
        object.__setattr__(self, "context_length", lengths)
        object.__setattr__(self, "tasks", one_of("tasks", tasks, ("aligned", "independent")))

    @property
    def dimension(self) -> int:
        """D."""
        return self.spectrum.dimension

    @property
    def common_basis(self) -> FloatArray | None:
        """U, the eigenvectors of the inputs' covariance, [D, D], as columns."""
        return self.spectrum.basis

    @property
    def has_vector_labels(self) -> bool:
        return True

    def moments(self) -> RegressionMoments:
        r"""The moments behind $E\|y_q - W\hat\Sigma M x_q\|^2$, one map M for all labels.

        $E[W^\top W] = I$ for both kinds of tasks, so they are T3's with $\Sigma_w = I$.
        """
        covariance = self.spectrum.matrix
        identity, inverse = np.eye(self.dimension), self.context_length.mean_inverse
        return regression_moments(covariance, identity, covariance, 0.0, inverse)

    def block_statistics(self) -> Statistics:
        raise InvalidInput("task", self, "its labels are vectors: T6 has the features of scalars")

    def sample(self, prompts: int, seed: int = 0) -> VectorPrompts:
        """Draw `prompts` prompts; the same seed draws the same prompts."""
        count = whole_number("prompts", prompts)
        generator = np.random.default_rng(whole_number("seed", seed, at_least=0))
        dimension, basis = self.dimension, self.spectrum.basis
        shape = (count, self.context_length.longest + 1, dimension)
        modes = generator.standard_normal(shape) * np.sqrt(self.spectrum.eigenvalues)
        x = modes @ basis.T
        if self.tasks == "aligned":
            y = (modes * generator.standard_normal((count, 1, dimension))) @ basis.T
        else:
            maps = generator.standard_normal((count, dimension, dimension)) / np.sqrt(dimension)
            y = x @ maps.mT
        return VectorPrompts(x, y)

    def __repr__(self) -> str:
        return (
            f"AlignedRegression({self.spectrum!r}, context_length={self.context_length!r}, "
            f"tasks={self.tasks!r})"
        )
