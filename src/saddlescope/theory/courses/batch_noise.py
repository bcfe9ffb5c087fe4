"""How far batches take stochastic descent from the flow: the linear transformer's modes (T15)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

from saddlescope.arrays import BriefRepr
from saddlescope.checks import FloatArray, number, real_array, whole_number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AbstractTask, AlignedRegression
from saddlescope.theory.linear_transformer import coupled_modes, coupled_velocity
from saddlescope.theory.parametrisation import check_size

# Prompts behind the covariance of one prompt's velocity: it is known to some 5 per cent.
_PROMPTS = 2000
_PROMPT_SEED = 31_415
# Moments in each leg of constant learning rate between which the spread is carried on.
_MOMENTS = 40


@dataclass(frozen=True, eq=False, repr=False)
class BatchSpread(BriefRepr):
    """What steps and batches add to the modes, to first order, over time.

    >>> import saddlescope as ss
    >>> task = ss.AlignedRegression([1., .5], context_length=100)
    >>> spread = ss.theory.batch_spread(task, .01, learning_rates=[.05], steps=40, batch_size=256)
    >>> spread.spread.shape == (len(spread.time), 2)
    True
    """

    time: Float[np.ndarray, " T"]
    shift: Float[np.ndarray, "T D"]
    r"""The mean of $a_\alpha$ less that of the flow: steps are finite."""
    spread: Float[np.ndarray, "T D"]
    r"""The standard deviation of $a_\alpha$: batches are finite."""


@np.errstate(over="ignore", invalid="ignore")
def batch_spread(
    task: object, start: float, learning_rates: object, steps: int, batch_size: int
) -> BatchSpread:
    r"""The spread of stochastic descent about the exact modes $z = (p, q)$ of aligned tasks (T15).

    Legs of `steps` steps, one for each learning rate η, take $\Delta = 2\eta$ of flow time a step
    from $p = q = \sqrt{a^0}$, `start` being $a^0$. To first order, with $f$ the velocity of
    `coupled_modes`, $J$ its Jacobian and $V$ the covariance of one prompt's velocity, taken from
    sampled prompts, the mean is off by b, $\dot b = Jb - \frac\Delta2 Jf$, and the covariance grows
    by $\dot C = JC + CJ^\top + \frac\Delta{B}V$.

    `learning_rates` are [n], one course each; `start` is the balanced amplitude at which modes
    begin.

    >>> task = AlignedRegression([1, .5], context_length=20)
    >>> noise = batch_spread(task, start=.1, learning_rates=[.01, .02], steps=100, batch_size=64)
    >>> noise.time[[0, -1]].tolist(), noise.spread.shape
    ([0.0, 6.0], (81, 2))
    """
    law = _aligned(task)
    begin = number("start", start, above=0.0)
    check_size("start", begin)
    rates = real_array("learning_rates", learning_rates, (None,))
    if not rates.size or (rates <= 0).any():
        raise InvalidInput("learning_rates", learning_rates, "must be above 0, one at least")
    count, batch = whole_number("steps", steps), whole_number("batch_size", batch_size)
    widths = 2 * rates
    ends = np.concatenate([[0.0], np.cumsum(widths * count)])
    time = np.interp(np.arange(_MOMENTS * len(widths) + 1) / _MOMENTS, range(len(ends)), ends)
    values, length = law.spectrum.eigenvalues, law.context_length.longest
    root, middles = np.sqrt(begin), (time[1:] + time[:-1]) / 2
    halfway = coupled_modes(values, length, root, root, middles)
    prompts = _Prompts.of(law)
    biases = [np.zeros(2 * len(values))]
    covariances = [np.zeros((2 * len(values),) * 2)]
    for z, step, duration in zip(
        np.concatenate([halfway.p, halfway.q], axis=1),
        np.repeat(widths, _MOMENTS),
        np.diff(time),
        strict=True,
    ):
        carry, gathered = _propagate(
            _jacobian(z, values, length), step / batch * prompts.covariance(z), duration
        )
        late = step / 2 * coupled_velocity(z, values, length)
        biases.append(carry @ (biases[-1] - late) + late)
        covariances.append(carry @ covariances[-1] @ carry.T + gathered)
    ended = coupled_modes(values, length, root, root, time)
    slope = np.concatenate([_diagonals(ended.q), _diagonals(ended.p)], axis=2)
    shift = np.einsum("tdz,tz->td", slope, np.array(biases))
    variance = np.einsum("tdz,tzy,tdy->td", slope, np.array(covariances), slope)
    if not np.isfinite(variance).all():
        raise InvalidInput("start", start, "is too large: the spread leaves float64")
    return BatchSpread(time, shift, np.sqrt(variance))


def _aligned(task: object) -> AlignedRegression:
    if isinstance(task, AlignedRegression) and task.tasks == "aligned":
        return task
    if isinstance(task, AbstractTask):
        raise TheoryDoesNotApply(
            f"the coupled modes are those of aligned tasks (T15), not {task!r}"
        )
    raise InvalidInput("task", task, "must be an AlignedRegression")


@dataclass(frozen=True, eq=False)
class _Prompts:
    """Prompts in the eigenbasis: what diagonal weights make of them."""

    query: FloatArray
    task: FloatArray
    seen: FloatArray
    r"""$\hat\Sigma$, [P, D, D]."""

    @classmethod
    def of(cls, task: AlignedRegression) -> _Prompts:
        drawn = task.sample(_PROMPTS, seed=_PROMPT_SEED)
        inputs, labels = drawn.x @ task.spectrum.basis, drawn.y @ task.spectrum.basis
        context = inputs[:, :-1]
        seen = context.mT @ context / drawn.context_length
        return cls(inputs[:, -1], labels[:, -1] / inputs[:, -1], seen)

    def covariance(self, z: FloatArray) -> FloatArray:
        """Of one prompt's velocity of (p, q)."""
        p, q = np.split(z, 2)
        read = self.task * np.einsum("pab,pb->pa", self.seen, q * self.query)
        left = self.task * self.query - p * read
        pulled = np.einsum("pa,pab->pb", left * p * self.task, self.seen) * self.query
        return np.cov(np.concatenate([left * read, pulled], axis=1).T)


def _propagate(
    jacobian: FloatArray, noise: FloatArray, duration: float
) -> tuple[FloatArray, FloatArray]:
    r"""$e^{Jt}$ and $\int_0^t e^{Js} V e^{J^\top s} ds$, both from one exponential (Van Loan)."""
    size = len(jacobian)
    block = np.block([[-jacobian, noise], [np.zeros_like(noise), jacobian.T]])
    grown = expm(block * duration)
    carry = grown[size:, size:].T
    return carry, carry @ grown[:size, size:]


def _jacobian(z: FloatArray, s: FloatArray, length: int) -> FloatArray:
    """The derivative of the velocity, exact by a step in the imaginary direction."""
    step = 1e-30
    columns = [coupled_velocity(z + 1j * step * unit, s, length).imag for unit in np.eye(len(z))]
    return np.stack(columns, axis=1) / step


def _diagonals(rows: FloatArray) -> FloatArray:
    """Rows [T, D] as diagonal matrices [T, D, D]."""
    return rows[:, :, None] * np.eye(rows.shape[1])
