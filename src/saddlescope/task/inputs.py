"""The law of the inputs beyond their covariance: its moments, and how it is drawn (T20)."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, is_single, real_array
from saddlescope.errors import InvalidInput
from saddlescope.task.spectrum import Spectrum

if TYPE_CHECKING:
    from saddlescope.task.samplers import AbstractInputSampler

# The excess kurtosis γ of each law that has no parameter.
_EXCESS_KURTOSIS = {"gaussian": 0.0, "rademacher": -2.0, "uniform": -1.2, "laplace": 3.0}
_STUDENT = "student"
_ALLOWED = (
    f"must be {', '.join(_EXCESS_KURTOSIS)} or {_STUDENT}:NU, one for all coordinates or one for "
    "each, or samples [n, D]"
)


class AbstractInputs(abc.ABC):
    r"""The law of inputs $x$: what the loss and the samplers need of it beyond $\Lambda$ (T20)."""

    @property
    @abc.abstractmethod
    def is_gaussian(self) -> bool:
        """Whether this is the law that Λ alone determines."""

    @abc.abstractmethod
    def choose_spectrum(self, spectrum: object, covariance: object) -> Spectrum:
        r"""$\Lambda$ from the two fields that can give it, checked against the law."""

    @abc.abstractmethod
    def excess(self, spectrum: Spectrum, inner: FloatArray) -> FloatArray:
        r"""What $E[x x^\top A\, x x^\top]$ has beyond its value for Gaussian inputs, [D, D]."""

    @abc.abstractmethod
    def draw(
        self, generator: np.random.Generator, shape: tuple[int, ...], covariance: Spectrum
    ) -> FloatArray:
        """Vectors of the law with that covariance, [*shape, D]."""

    @abc.abstractmethod
    def sampler(self, inputs: Spectrum, queries: Spectrum) -> AbstractInputSampler:
        """What draws contexts and queries of these covariances inside compiled loops."""

    @abc.abstractmethod
    def written(self) -> object:
        """What stands for it in a setting."""


@dataclass(frozen=True)
class CoordinateLaw:
    """A law of one coordinate, of mean 0 and variance 1; `freedom` is Student's ν.

    >>> CoordinateLaw.parse("student:10").excess_kurtosis
    1.0
    """

    name: str
    freedom: float | None = None

    @classmethod
    def parse(cls, text: str) -> CoordinateLaw:
        """Read `laplace` or `student:5`."""
        name, _, number = text.strip().partition(":")
        if name in _EXCESS_KURTOSIS and not number:
            return cls(name)
        try:
            freedom = float(number)
        except ValueError:
            freedom = math.nan
        if name != _STUDENT or not math.isfinite(freedom):
            raise InvalidInput("inputs", text, _ALLOWED)
        if freedom <= 4:
            least = "needs NU above 4: with fewer degrees of freedom its fourth moment is infinite"
            raise InvalidInput("inputs", text, least)
        return cls(name, freedom)

    @property
    def excess_kurtosis(self) -> float:
        r"""$\gamma = E[z^4] - 3$."""
        if self.freedom is not None:
            return 6 / (self.freedom - 4)
        return _EXCESS_KURTOSIS[self.name]

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Independent values of the law."""
        if self.freedom is not None:
            scale = math.sqrt((self.freedom - 2) / self.freedom)
            return scale * generator.standard_t(self.freedom, shape)
        if self.name == "rademacher":
            return 2.0 * generator.integers(2, size=shape) - 1.0
        if self.name == "uniform":
            return generator.uniform(-math.sqrt(3), math.sqrt(3), shape)
        if self.name == "laplace":
            return generator.laplace(scale=math.sqrt(0.5), size=shape)
        return generator.standard_normal(shape)

    def __str__(self) -> str:
        freedom = "" if self.freedom is None else f":{self.freedom!r}".removesuffix(".0")
        return self.name + freedom


@dataclass(frozen=True)
class IndependentInputs(AbstractInputs):
    r"""$x = \sum_d \sqrt{\lambda_d}\, z_d e_d$, the $z_d$ independent, of mean 0 and variance 1.

    `laws` holds one for all coordinates, or one for each eigenvector, largest eigenvalue first.
    Inside a repeated eigenvalue the eigenvectors are those of the `Spectrum`, which can be given.
    """

    laws: tuple[CoordinateLaw, ...]

    @property
    def is_gaussian(self) -> bool:
        return set(self.laws) == {CoordinateLaw("gaussian")}

    def choose_spectrum(self, spectrum: object, covariance: object) -> Spectrum:
        chosen = Spectrum.choose(spectrum, covariance)
        if len(self.laws) not in (1, chosen.dimension):
            allowed = f"has {len(self.laws)} laws, and spectrum has D = {chosen.dimension}"
            raise InvalidInput("inputs", self.written(), allowed)
        if len(self._shared) > 1 and chosen.is_axis_aligned and not chosen.is_in_order:
            # A law for each axis of x and one for each eigenvalue would be two things.
            allowed = "goes with eigenvalues in falling order: give the spectrum in that order"
            raise InvalidInput("inputs", self.written(), allowed)
        return chosen

    def excess(self, spectrum: Spectrum, inner: FloatArray) -> FloatArray:
        r"""$\Lambda\,\mathrm{diag}(\gamma_d A_{dd})\,\Lambda$ in the eigenbasis of Λ (T20)."""
        basis = spectrum.basis
        kurtosis = np.array([law.excess_kurtosis for law in self.laws])
        own = ((basis.T @ inner) * basis.T).sum(1)
        return (basis * (kurtosis * own * spectrum.eigenvalues**2)) @ basis.T

    def draw(
        self, generator: np.random.Generator, shape: tuple[int, ...], covariance: Spectrum
    ) -> FloatArray:
        if len(self._shared) == 1:
            return covariance.colour(self.laws[0].draw(generator, (*shape, covariance.dimension)))
        columns = [law.draw(generator, shape) for law in self.laws]
        return covariance.colour(np.stack(columns, axis=-1))

    def sampler(self, inputs: Spectrum, queries: Spectrum) -> AbstractInputSampler:
        from saddlescope.task.samplers import CoordinateSampler

        laws = tuple((law.name, law.freedom) for law in self._shared)
        return CoordinateSampler(inputs.root, queries.root, laws)

    def written(self) -> str:
        """The names of the laws, as a flag takes them."""
        return str(self)

    def __str__(self) -> str:
        return ",".join(map(str, self._shared))

    @property
    def _shared(self) -> tuple[CoordinateLaw, ...]:
        """One law where all coordinates have the same."""
        return self.laws[:1] if len(set(self.laws)) == 1 else self.laws


@dataclass(frozen=True, eq=False)
class SampledInputs(AbstractInputs):
    r"""Inputs drawn, with replacement, from the rows of `samples[n, D]`.

    Λ is their second moment $X^\top X/n$ about zero: they are not centred, because the loss knows
    moments about zero alone (T20 holds for any mean). A query of another covariance is Gaussian.
    """

    samples: FloatArray

    @property
    def is_gaussian(self) -> bool:
        return False

    @cached_property
    def spectrum(self) -> Spectrum:
        r"""$\Lambda$ of the samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Spectrum.from_matrix(self.samples.T @ self.samples / len(self.samples), "inputs")

    def choose_spectrum(self, spectrum: object, covariance: object) -> Spectrum:
        for field, value in (("spectrum", spectrum), ("covariance", covariance)):
            # The samples' own may stand beside them: a changed copy of a task is made so.
            if value is not None and Spectrum.make(value, field) != self.spectrum:
                raise InvalidInput(
                    field, value, "samples as inputs have a second moment of their own: give None"
                )
        return self.spectrum

    def excess(self, spectrum: Spectrum, inner: FloatArray) -> FloatArray:
        r"""$\frac1n\sum_n (x_n^\top A x_n)\,x_n x_n^\top$ less the Gaussian value, [D, D]."""
        weights = ((self.samples @ inner) * self.samples).sum(1) / len(self.samples)
        measured = (self.samples.T * weights) @ self.samples
        covariance = spectrum.matrix
        pairs = covariance @ (inner + inner.T) @ covariance
        return measured - pairs - np.trace(inner @ covariance) * covariance

    def draw(
        self, generator: np.random.Generator, shape: tuple[int, ...], covariance: Spectrum
    ) -> FloatArray:
        if covariance != self.spectrum:
            return covariance.colour(generator.standard_normal((*shape, covariance.dimension)))
        rows: FloatArray = self.samples[generator.integers(len(self.samples), size=shape)]
        return rows

    def sampler(self, inputs: Spectrum, queries: Spectrum) -> AbstractInputSampler:
        from saddlescope.task.samplers import InputRowSampler

        return InputRowSampler(self.samples, None if queries == inputs else queries.root)

    def written(self) -> FloatArray:
        """The samples themselves."""
        return self.samples

    def __str__(self) -> str:
        return f"{len(self.samples)} samples"


def make_inputs(value: object) -> AbstractInputs:
    """An input law from a law, text, several texts, or samples [n, D]."""
    if isinstance(value, AbstractInputs):
        return value
    texts = value.split(",") if isinstance(value, str) else value
    if isinstance(texts, Sequence) and texts and all(isinstance(text, str) for text in texts):
        return IndependentInputs(tuple(CoordinateLaw.parse(text) for text in texts))
    if is_single("inputs", value):
        raise InvalidInput("inputs", value, _ALLOWED)
    samples = real_array("inputs", value, (None, None))
    if not samples.any():
        raise InvalidInput("inputs", value, "must hold samples that are not all zero")
    return SampledInputs(samples)


def require_gaussian(inputs: object, reason: str) -> None:
    """Refuse other laws where exact moments are known for Gaussian inputs only."""
    law = make_inputs(inputs)
    if not law.is_gaussian:
        raise InvalidInput("inputs", str(law), f"must be gaussian: {reason}")
