"""The in-context regression law and its sampler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, number, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.task._block_moments import ContextLaw, TaskMoments, block_statistics
from saddlescope.task.base import AbstractTask
from saddlescope.task.inputs import (
    AbstractInputs,
    IndependentInputs,
    SampledInputs,
    make_inputs,
    require_gaussian,
)
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments
from saddlescope.task.prompts import Prompts
from saddlescope.task.spectrum import Spectrum, common_basis
from saddlescope.task.statistics import Statistics

if TYPE_CHECKING:
    from saddlescope.task.samplers import RegressionSampler

# Prompts drawn at once while statistics are streamed from the law.
_BATCH = 4096


@kind("task", "in_context_regression")
@dataclass(frozen=True, eq=False, init=False)
class InContextRegression(AbstractTask):
    r"""In-context linear regression (THEORY section 1).

    $x_n \sim N(0, \Lambda)$ for $n = 1 \dots N$, $x_q \sim N(0, \Lambda_q)$,
    $w \sim N(0, \Sigma_w)$, $y_n = w^\top x_n + \epsilon_n$ with
    $\epsilon_n \sim N(0, \sigma^2)$, target $y_q = w^\top x_q$.

    - `spectrum`: Λ by its eigenvalues, .4,.3,.2,.1 or white:4 or power:8:1; a `Spectrum`.
    - `context_length`: N, the pairs in the context: 31 or uniform:8:32; or a `ContextLengths`.
    - `task_covariance`: Σ_w, eigenvalues or a matrix; the identity by default.
    - `query_covariance`: Λ_q, eigenvalues or a matrix; that of the context by default.
    - `label_noise`: σ, the standard deviation of the noise on the context's labels.
    - `inputs`: the law of the inputs: gaussian, rademacher, uniform, laplace or student:NU, NU > 4;
      one for each eigenvector, as laplace,rademacher; or samples [n, D], in place of `spectrum`.
    - `covariance`: Λ as a matrix [D, D], in place of `spectrum`.

    Other `inputs` than Gaussian are independent along the eigenvectors of Λ, with mean 0 (T20), and
    so are queries along those of Λ_q. Of several laws the first is that of the largest eigenvalue.
    Samples are drawn with replacement; Λ is their second moment about zero, their fourth is
    measured, and they are not centred: the loss knows no other moments. Of the query's law it knows
    the covariance alone, and beside samples one of another `query_covariance` is Gaussian.

    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> task.sample(5, seed=0)
    Prompts(5 prompts, context_length=31, dimension=4)
    >>> InContextRegression([.4, .3], context_length=8, inputs="laplace")
    InContextRegression(Spectrum([0.4, 0.3]), context_length=8, inputs=laplace)
    """

    spectrum: Spectrum
    context_length: ContextLengths
    task_covariance: Spectrum | None
    query_covariance: Spectrum | None
    label_noise: float
    inputs: AbstractInputs

    def __init__(
        self,
        spectrum: object = None,
        context_length: object = None,
        task_covariance: object = None,
        query_covariance: object = None,
        label_noise: float = 0.0,
        inputs: object = "gaussian",
        *,
        covariance: object = None,
    ) -> None:
        law = make_inputs(inputs)
        chosen = law.choose_spectrum(spectrum, covariance)
        object.__setattr__(self, "inputs", law)
        object.__setattr__(self, "spectrum", chosen)
        object.__setattr__(self, "context_length", ContextLengths.make(context_length))
        for field, value in (
            ("task_covariance", task_covariance),
            ("query_covariance", query_covariance),
        ):
            made = None if value is None else Spectrum.make(value, field)
            if made is not None and made.dimension != chosen.dimension:
                raise InvalidInput(
                    f"{field}.dimension", made.dimension, f"spectrum has D = {chosen.dimension}"
                )
            object.__setattr__(self, field, made)
        object.__setattr__(self, "label_noise", number("label_noise", label_noise, at_least=0.0))

    def written(self) -> dict[str, object]:
        """The fields, without inputs that are Gaussian and without the spectrum of samples."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        if self.inputs.is_gaussian:
            del fields["inputs"]
        if isinstance(self.inputs, SampledInputs):
            del fields["spectrum"]
        return fields

    @property
    def dimension(self) -> int:
        """D."""
        return self.spectrum.dimension

    @property
    def covariance(self) -> FloatArray:
        r"""$\Lambda$, [D, D]."""
        return self.spectrum.matrix

    @property
    def task_matrix(self) -> FloatArray:
        r"""$\Sigma_w$, [D, D]."""
        return (
            np.eye(self.dimension) if self.task_covariance is None else self.task_covariance.matrix
        )

    @property
    def query_matrix(self) -> FloatArray:
        r"""$\Lambda_q$, [D, D]."""
        return self.covariance if self.query_covariance is None else self.query_covariance.matrix

    @property
    def common_basis(self) -> FloatArray | None:
        r"""The eigenvectors that $\Lambda, \Sigma_w, \Lambda_q$ and $B$ share, [D, D], or None."""
        papers = self.task_covariance is None and self.query_covariance is None
        if papers and isinstance(self.inputs, IndependentInputs):
            return self.spectrum.basis
        covariances = [self.covariance, self.task_matrix, self.query_matrix]
        # Of Gaussian inputs B is made of the first two.
        return common_basis(
            covariances if self.inputs.is_gaussian else [*covariances, self.moments().summary]
        )

    @cached_property
    def _excess(self) -> FloatArray | None:
        """The contribution of the inputs' fourth moment to B; cached, since samples may be many."""
        if self.inputs.is_gaussian:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return self.inputs.excess(self.spectrum, self.task_matrix)

    def moments(self) -> RegressionMoments:
        """The exact moments that the population loss depends on (T2, T3, T20)."""
        return self._moments

    @cached_property
    def _moments(self) -> RegressionMoments:
        """Cached and read-only: the theory of one setting needs them a dozen times."""
        moments = regression_moments(
            self.covariance,
            self.task_matrix,
            self.query_matrix,
            self.label_noise,
            self.context_length.mean_inverse,
            self._excess,
        )
        for matrix in (moments.drive, moments.summary, moments.query):
            matrix.setflags(write=False)
        return moments

    def block_statistics(self) -> Statistics:
        """The exact statistics of the features that all blocks see (T6)."""
        reason = "exact statistics of full blocks are for Gaussian inputs (T6); take reduced blocks"
        require_gaussian(self.inputs, f"{reason}, or train on prompts, task.sample(P)")
        return block_statistics(
            self.context_law, TaskMoments.gaussian(self.task_matrix), self.fixed_length
        )

    @property
    def context_law(self) -> ContextLaw:
        """The law of a prompt given its task."""
        return ContextLaw(
            covariance=self.covariance,
            query=self.query_matrix,
            label_noise=self.label_noise,
            inverse_length=self.context_length.mean_inverse,
            inverse_square=self.context_length.mean_inverse_square,
        )

    def sampler(self) -> RegressionSampler:
        return self.pool_sampler(np.zeros((1, self.dimension)), 0.0, random_labels=False)

    def pool_sampler(
        self, pool: FloatArray, share: float, *, random_labels: bool
    ) -> RegressionSampler:
        """What draws prompts of which a share has its task from `pool[K, D]`."""
        from saddlescope.task.samplers import RegressionSampler

        return RegressionSampler(
            inputs=self.inputs.sampler(self.spectrum, self.query_covariance or self.spectrum),
            task_root=(self.task_covariance or Spectrum.white(self.dimension)).root,
            label_noise=np.float64(self.label_noise),
            lengths=np.asarray(self.context_length.lengths),
            shares=self.context_length.probabilities,
            pool=pool,
            pool_share=np.float64(share),
            random_labels=random_labels,
            longest=self.context_length.longest,
        )

    def sample(self, prompts: int, seed: int = 0) -> Prompts:
        """Draw `prompts` prompts; the same seed draws the same prompts."""
        count = whole_number("prompts", prompts)
        return self._draw(count, np.random.default_rng(whole_number("seed", seed, at_least=0)))

    def sample_batches(self, prompts: int, seed: int = 0) -> Iterator[Prompts]:
        """Draw `prompts` prompts a batch at a time, in memory that does not grow with them."""
        left = whole_number("prompts", prompts)
        generator = np.random.default_rng(whole_number("seed", seed, at_least=0))
        while left:
            batch = min(left, _BATCH)
            yield self._draw(batch, generator)
            left -= batch

    def statistics(self, prompts: int, seed: int = 0, blocks: str = "reduced") -> Statistics:
        """Sufficient statistics of `prompts` freshly drawn prompts, streamed (T6)."""
        return Statistics.from_batches(self.sample_batches(prompts, seed), blocks)

    def _draw(self, count: int, generator: np.random.Generator) -> Prompts:
        self.check_prompts(count)
        longest, dimension = self.context_length.longest, self.dimension
        lengths = np.full(count, longest)
        if not self.context_length.is_fixed:
            lengths = generator.choice(
                self.context_length.lengths, size=count, p=self.context_length.probabilities
            )
        x = np.empty((count, longest + 1, dimension))
        x[:, :-1] = self.inputs.draw(generator, (count, longest), self.spectrum)
        x[:, -1] = self.inputs.draw(generator, (count,), self.query_covariance or self.spectrum)
        tasks: FloatArray = generator.standard_normal((count, dimension))
        if self.task_covariance is not None:
            tasks = self.task_covariance.colour(tasks)
        y = np.matmul(x, tasks[:, :, None])[:, :, 0]
        if self.label_noise:
            y[:, :-1] += self.label_noise * generator.standard_normal((count, longest))
        if not self.context_length.is_fixed:
            beyond = np.arange(longest) >= lengths[:, None]
            x[:, :-1][beyond] = 0.0
            y[:, :-1][beyond] = 0.0
        return Prompts(x, y, None if self.fixed_length else lengths)

    def __repr__(self) -> str:
        parts = [repr(self.spectrum), f"context_length={self.context_length!r}"]
        if self.task_covariance is not None:
            parts.append(f"task_covariance={self.task_covariance!r}")
        if self.query_covariance is not None:
            parts.append(f"query_covariance={self.query_covariance!r}")
        if self.label_noise:
            parts.append(f"label_noise={self.label_noise:g}")
        if not self.inputs.is_gaussian:
            parts.append(f"inputs={self.inputs}")
        return f"InContextRegression({', '.join(parts)})"
