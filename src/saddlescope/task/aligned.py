"""In-context regression with vector labels, as Mainali and Teixeira have it (THEORY section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, one_of, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.task.base import AbstractTask
from saddlescope.task.inputs import require_gaussian
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments
from saddlescope.task.prompts import Prompts
from saddlescope.task.spectrum import Spectrum

if TYPE_CHECKING:
    from saddlescope.risk import Objective
    from saddlescope.task.samplers import VectorSampler


@kind("task", "aligned_regression")
@dataclass(frozen=True, eq=False, init=False)
class AlignedRegression(AbstractTask):
    r"""In-context regression with vector labels $y = Wx$, $x \sim N(0, \Sigma_x)$ (section 6).

    - `spectrum`, `covariance`: Σ_x, as in `InContextRegression`.
    - `context_length`: N, one number.
    - `tasks`: `aligned`, W = U diag(λ) Uᵀ with λ_α ~ N(0, 1), U the eigenbasis of Σ_x; or
      `independent`, W_ij ~ N(0, 1/D).
    - `inputs`: gaussian alone.

    >>> AlignedRegression([1, .5], context_length=8).sample(5, seed=0)
    Prompts(5 prompts, context_length=8, dimension=2, vector labels)
    """

    spectrum: Spectrum
    context_length: ContextLengths
    tasks: str

    has_vector_labels = True

    def __init__(
        self,
        spectrum: object = None,
        context_length: object = None,
        tasks: str = "aligned",
        *,
        covariance: object = None,
        inputs: object = "gaussian",
    ) -> None:
        require_gaussian(inputs, "the exact loss of vector labels is for Gaussian inputs (T15)")
        lengths = ContextLengths.make(context_length)
        if not lengths.is_fixed:
            raise InvalidInput("context_length", context_length, "must be one number")
        vars(self).update(
            spectrum=Spectrum.choose(spectrum, covariance),
            context_length=lengths,
            tasks=one_of("tasks", tasks, ("aligned", "independent")),
        )

    @property
    def dimension(self) -> int:
        return self.spectrum.dimension

    @property
    def common_basis(self) -> FloatArray | None:
        """U, the eigenvectors of the inputs' covariance, [D, D], as columns."""
        return self.spectrum.basis

    def moments(self) -> RegressionMoments:
        r"""The moments behind $E\|y_q - W\hat\Sigma M x_q\|^2$, one map M for all labels.

        $E[W^\top W] = I$ for both kinds of tasks, so they are T3's with $\Sigma_w = I$.
        """
        covariance = self.spectrum.matrix
        identity, inverse = np.eye(self.dimension), self.context_length.mean_inverse
        return regression_moments(covariance, identity, covariance, 0.0, inverse)

    def vector_objective(self, gain: float) -> Objective:
        from saddlescope.risk import Objective, VectorRisk

        return Objective(
            VectorRisk(
                gain=np.float64(gain),
                eigenvalues=self.spectrum.eigenvalues,
                basis=self.spectrum.basis,
                inverse_length=np.float64(self.context_length.mean_inverse),
                tasks=self.tasks,
            )
        )

    def sampler(self) -> VectorSampler:
        from saddlescope.task.samplers import VectorSampler

        spectrum, length = self.spectrum, self.context_length.longest
        return VectorSampler(spectrum.eigenvalues, spectrum.basis, self.tasks, length)

    def sample(self, prompts: int, seed: int = 0) -> Prompts:
        """Draw `prompts` prompts; the same seed draws the same prompts."""
        count = whole_number("prompts", prompts)
        self.check_prompts(count)
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
        return Prompts(x, y)

    def __repr__(self) -> str:
        return (
            f"AlignedRegression({self.spectrum!r}, context_length={self.context_length!r}, "
            f"tasks={self.tasks!r})"
        )
