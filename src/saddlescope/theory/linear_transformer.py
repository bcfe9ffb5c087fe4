r"""How a linear transformer learns its modes: the paper's logistic curves and the exact ones (T15).

Three statements, each exact for its own model, all in flow time (MT's $\eta t$):

- `logistic_modes` (MT 9–14) and `unbalanced_modes`: $\hat y = W\hat\Sigma\,(pq)\,x_q$, the value
  frozen, key and query trained, at every N, on aligned and on independent tasks;
- `coupled_modes`: the paper's own architecture $\hat y = p_2 W\hat\Sigma q_1 x_q$ on aligned
  tasks, at every N. The logistic curves are its limit of infinite N, and its error there is of
  order 1/N and largest for the slowest mode.

Modes are counted in falling order of eigenvalue. A loss is $E\|y_q - \hat y_q\|^2$, which is twice
MT's, so that it is the loss that `train` records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from saddlescope.arrays import BriefRepr
from saddlescope.checks import AnyArray, FloatArray, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task.spectrum import Spectrum
from saddlescope.theory._following import follow
from saddlescope.theory.parametrisation import check_size, given_times


@dataclass(frozen=True, eq=False, repr=False)
class UncoupledModes(BriefRepr):
    r"""Modes that learn each by itself.

    >>> import saddlescope as ss
    >>> modes = ss.theory.logistic_modes([1., .5], 100, start=.01, times=[0., 100.])
    >>> modes.limit.round(3).tolist(), modes.half_time.round(2).tolist()
    ([0.976, 1.923], [2.29, 10.51])
    """

    exact_for: ClassVar[str] = "ŷ = WΣ̂(pq)x_q, the value frozen, at every N"

    time: Float[np.ndarray, " T"]
    amplitude: Float[np.ndarray, "T D"]
    r"""$a_\alpha(t) = p_\alpha q_\alpha$."""
    loss: Float[np.ndarray, " T"]
    limit: Float[np.ndarray, " D"]
    r"""$a^\infty_\alpha = N/((N+1)s_\alpha + \mathrm{tr}\,S)$ (MT 12)."""
    half_time: Float[np.ndarray, " D"]
    """When a mode is halfway to its limit; NaN if it never is, or was at the start."""


@dataclass(frozen=True, eq=False, repr=False)
class CoupledFixedPoint(BriefRepr):
    """Where the paper's own architecture comes to rest on aligned tasks.

    >>> import saddlescope as ss
    >>> rest = ss.theory.coupled_fixed_point([1., .5], context_length=100)
    >>> rest.amplitude.round(3).tolist(), round(rest.loss, 4)
    ([0.974, 1.934], 0.0429)
    """

    amplitude: Float[np.ndarray, " D"]
    r"""$a^*_\alpha$, zero for the modes that are never learned."""
    active: Bool[np.ndarray, " D"]
    """Which modes are learned."""
    loss: float


@dataclass(frozen=True, eq=False, repr=False)
class CoupledModes(BriefRepr):
    """Modes that learn together: the paper's own architecture on aligned tasks.

    `p` and `q` are [T, D]; `fixed_point` is where they rest.

    >>> import saddlescope as ss
    >>> modes = ss.theory.coupled_modes([1., .5], 100, p=[.1, .1], q=[.1, .1], times=[0., 100.])
    >>> modes.amplitude[-1].round(3).tolist()
    [0.974, 1.934]
    """

    exact_for: ClassVar[str] = "ŷ = p₂WΣ̂q₁x_q on aligned tasks, at every N"

    time: Float[np.ndarray, " T"]
    p: Float[np.ndarray, "T D"]
    q: Float[np.ndarray, "T D"]
    amplitude: Float[np.ndarray, "T D"]
    r"""$a_\alpha(t) = p_\alpha q_\alpha$."""
    loss: Float[np.ndarray, " T"]
    fixed_point: CoupledFixedPoint


def logistic_modes(
    spectrum: object, context_length: int, start: object, times: object
) -> UncoupledModes:
    r"""The paper's curves from a balanced start (T15; MT 9–14).

    $a_\alpha(t) = a^\infty a^0/(a^0 + (a^\infty - a^0)e^{-2t/\tau_\alpha})$ with
    $\tau_\alpha = 1/s_\alpha^2$, half-time $\frac{\tau_\alpha}{2}\ln\frac{a^\infty - a^0}{a^0}$,
    loss $\sum_\alpha s_\alpha(s_\alpha a_\alpha^2/a^\infty_\alpha - 2s_\alpha a_\alpha + 1)$.
    Exact where the value is frozen; for the paper's own architecture see `coupled_modes`.

    `start` is $a^0$, one number or one a mode (in falling order of eigenvalue):
    positive for p = q, negative for p = −q, which flows to zero. `times[T]` are not negative.

    >>> modes = logistic_modes([1, .5], context_length=100, start=1e-3, times=[0, 50])
    >>> modes.half_time.round(2).tolist(), modes.amplitude[-1].round(3).tolist()
    ([3.44, 15.12], [0.976, 1.923])
    """
    inputs = Spectrum.make(spectrum)
    begin = _per_mode("start", start, inputs)
    root = np.sqrt(np.abs(begin))
    return unbalanced_modes(inputs, context_length, root, np.sign(begin) * root, times)


def unbalanced_modes(
    spectrum: object, context_length: int, p: object, q: object, times: object
) -> UncoupledModes:
    r"""The closed form from any start: $c = |p_0^2 - q_0^2|$ need not be zero (T15 ★).

    With $\kappa = c s^\infty/2$, $g = \sqrt{1+\kappa^2}$, $h = u_0 + \kappa$, $x = gt/\tau$:
    $u = -\kappa + g\,(h + g\tanh x)/(g + h\tanh x)$ and $a = cu/(1-u^2)$. It is computed as
    $a = (P\rho - Q/\rho)/4$ with $P = (p_0+q_0)^2$, $Q = (p_0-q_0)^2$ and
    $\rho = [g + (1 + s^\infty Q/2)\tanh x]/[g + (s^\infty P/2 - 1)\tanh x]$, the same function
    without its singularity at c = 0, where it is the logistic. Exact where the value is frozen.

    `p`, `q` are the start, one number or one a mode (in falling order of eigenvalue);
    `times[T]` are not negative.

    >>> unbalanced_modes([1, .5], 100, p=.3, q=0, times=[0, 2]).amplitude[-1].round(3).tolist()
    [0.555, 0.052]
    """
    inputs, length = Spectrum.make(spectrum), whole_number("context_length", context_length)
    s, time = inputs.eigenvalues, given_times(times)
    first = _per_mode("p", p, inputs)
    second = _per_mode("q", q, inputs)
    saturation = ((length + 1) * s + inputs.trace) / length
    grown = _grow((first + second) ** 2, (first - second) ** 2, saturation, s**2 * time[:, None])
    fall = s**2 * grown * (2 - saturation * grown)
    return UncoupledModes(
        time=time,
        amplitude=grown,
        loss=inputs.trace - fall.sum(1),
        limit=1 / saturation,
        half_time=_half_times((first + second) ** 2, (first - second) ** 2, saturation, s),
    )


def coupled_modes(
    spectrum: object, context_length: int, p: object, q: object, times: object
) -> CoupledModes:
    r"""The exact modes of the paper's own architecture on aligned tasks (T15 ★).

    $\dot p_\alpha = q_\alpha s_\alpha^2 - p_\alpha[(1+\frac1N)q_\alpha^2 s_\alpha^3
    + \frac{s_\alpha}{N}\sum_\beta q_\beta^2 s_\beta^2]$,
    $\dot q_\alpha = p_\alpha s_\alpha^2 - q_\alpha[(1+\frac1N)p_\alpha^2 s_\alpha^3
    + \frac{s_\alpha^2}{N}\sum_\beta p_\beta^2 s_\beta]$, solved to a relative 1e-10. They are the
    full matrix flow of $p_2 = U\mathrm{diag}(p)U^\top$, $q_1 = U\mathrm{diag}(q)U^\top$, which
    stays of that form, U being the eigenbasis of the inputs.

    `p`, `q` are the start, one number or one a mode (in falling order of eigenvalue);
    `times[T]` rise and are not negative.

    >>> modes = coupled_modes([1, .5], 100, p=.1, q=.1, times=[0, 5000])
    >>> modes.amplitude[-1].round(4).tolist(), modes.fixed_point.amplitude.round(4).tolist()
    ([0.9737, 1.9338], [0.9737, 1.9338])
    """
    inputs, length = Spectrum.make(spectrum), whole_number("context_length", context_length)
    s, time = inputs.eigenvalues, given_times(times)
    begin = [_per_mode("p", p, inputs), _per_mode("q", q, inputs)]
    state = np.concatenate(begin)
    sizes = np.abs(state[state != 0])
    followed = follow(
        "the coupled flow (T15)",
        lambda z: coupled_velocity(z, s, length),
        state,
        float(time[-1]),
        at=time,
        atol=1e-12 * min(1.0, float(sizes.min(initial=1.0))),
    )
    p_path, q_path = np.split(followed.states.T, 2, axis=1)
    return CoupledModes(
        time=time,
        p=p_path,
        q=q_path,
        amplitude=p_path * q_path,
        loss=_coupled_loss(p_path, q_path, s, length),
        fixed_point=coupled_fixed_point(inputs, length),
    )


def coupled_fixed_point(spectrum: object, context_length: int) -> CoupledFixedPoint:
    r"""Where the coupled modes come to rest (T15 ★).

    $a^*_\alpha = \frac{N}{N+1}s_\alpha^{-1}[1 - G/((N+1+k)\sqrt{s_\alpha})]$ with
    $G = \sum\sqrt{s_\beta}$ over the k active modes: those whose bracket is positive. A mode that
    starts at zero, p = q = 0, stays there and is not counted on here.

    >>> coupled_fixed_point([1, .6, .35, .01], context_length=10).active.tolist()
    [True, True, True, False]
    """
    inputs, length = Spectrum.make(spectrum), whole_number("context_length", context_length)
    s = inputs.eigenvalues
    root, active = np.sqrt(s), s > 0
    # Dropping a mode raises the bar for the others: none that was dropped would come back.
    while True:
        bar = root[active].sum() / (length + 1 + active.sum())
        still_active = active & (root > bar)
        if (still_active == active).all():
            break
        active = still_active
    amplitude = np.zeros_like(s)
    amplitude[active] = length / (length + 1) * (1 - bar / root[active]) / s[active]
    return CoupledFixedPoint(amplitude, active, float((s * (1 - s * amplitude)).sum()))


def coupled_plateau_losses(spectrum: object, context_length: int) -> Float[np.ndarray, " levels"]:
    r"""The losses at rest with the first 0, 1, …, D modes learned and the others at zero (T15 ★).

    $\sum_{\alpha>m}s_\alpha$ and the loss of `coupled_fixed_point` for the first m modes alone:
    a mode at p = q = 0 enters no other's velocity.

    >>> coupled_plateau_losses([1, .5], context_length=100).round(4).tolist()
    [1.5, 0.5196, 0.0429]
    """
    inputs = Spectrum.make(spectrum)
    parts = [np.split(inputs.eigenvalues, [count + 1]) for count in range(inputs.dimension)]
    levels = [rest.sum() + coupled_fixed_point(own, context_length).loss for own, rest in parts]
    return np.array([inputs.trace, *levels])


def coupling_coefficient(spectrum: object) -> Float[np.ndarray, " D"]:
    r"""How far the coupled modes rest from the paper's limit: $N(a^*/a^\infty - 1)$ as N grows.

    $\mathrm{tr}\,S/s_\alpha - G/\sqrt{s_\alpha}$, $G = \sum_\beta\sqrt{s_\beta}$ (T15 ★); every
    eigenvalue must be above zero.

    >>> coupling_coefficient([1, .25]).tolist()
    [-0.25, 2.0]
    """
    s = Spectrum.make(spectrum).eigenvalues
    if not s[-1] > 0:
        raise InvalidInput("spectrum", spectrum, "must have no eigenvalue that is zero")
    return s.sum() / s - np.sqrt(s).sum() / np.sqrt(s)


def coupled_velocity(state: AnyArray, s: FloatArray, length: int) -> AnyArray:
    """The velocity of `coupled_modes` at (p, q), `[2D]`; complex states have one too."""
    p, q = np.split(state, 2)
    own = (1 + 1 / length) * s**3
    p_cost = own * q**2 + s / length * (q**2 @ s**2)
    q_cost = own * p**2 + s**2 / length * (p**2 @ s)
    return np.concatenate([q * s**2 - p * p_cost, p * s**2 - q * q_cost])


def _coupled_loss(p: FloatArray, q: FloatArray, s: FloatArray, length: int) -> FloatArray:
    shared = (q**2 @ s**2)[:, None]
    cost = (1 + 1 / length) * s**3 * q**2 + s / length * shared
    return (p**2 * cost - 2 * p * q * s**2 + s).sum(1)


def _grow(
    plus: FloatArray, minus: FloatArray, saturation: FloatArray, elapsed: FloatArray
) -> FloatArray:
    r"""a of the closed form at $t/\tau$, given $(p_0+q_0)^2$ and $(p_0-q_0)^2$."""
    kappa_squared = plus * minus * saturation**2 / 4
    g = np.sqrt(1 + kappa_squared)
    # 1 − tanh x, and every other term, without cancellation: all are positive.
    short = 2 * expit(-2 * g * elapsed)
    risen = 1 - short
    above = g + (1 + saturation * minus / 2) * risen
    below = kappa_squared / (1 + g) + short + saturation * plus / 2 * risen
    # With p + q = 0 nothing but the decaying part is there, and `below` goes to zero.
    growing = np.divide(plus * above, below, out=np.zeros_like(below), where=plus > 0)
    return (growing - minus * below / above) / 4


def _half_times(
    plus: FloatArray, minus: FloatArray, saturation: FloatArray, s: FloatArray
) -> FloatArray:
    r"""When $a = a^\infty/2$: the closed form solved for x, given what $P\rho$ is there."""
    half = 1 / (2 * saturation)
    rises = ((plus - minus) / 4 < half) & (plus > 0) & (s > 0)
    reached = 2 * half + np.sqrt(4 * half**2 + plus * minus)
    rho = np.divide(reached, plus, out=np.ones_like(reached), where=rises)
    kappa_squared = plus * minus * saturation**2 / 4
    g = np.sqrt(1 + kappa_squared)
    # tanh x = g(ρ − 1)/(rest of the equation), and x = ½ ln((rest + …)/(rest − …)).
    rest = saturation * (minus - reached) / 2
    above = 1 - g + rho * (1 + g) + rest
    below = 1 + g - rho * kappa_squared / (1 + g) + rest
    time = np.full_like(s, np.nan)
    time[rises] = np.log(above[rises] / below[rises]) / (2 * g[rises] * s[rises] ** 2)
    return time


def _per_mode(field: str, value: object, inputs: Spectrum) -> FloatArray:
    array, dimension = real_array(field, value), inputs.dimension
    if array.shape not in ((), (dimension,)):
        raise InvalidInput(f"{field}.shape", array.shape, f"must be () or ({dimension},)")
    if array.shape and np.ptp(array) and inputs.is_axis_aligned and not inputs.is_in_order:
        # A number for each given eigenvalue and one for each mode would be two things.
        allowed = "goes with eigenvalues in falling order: give the spectrum in that order"
        raise InvalidInput(field, value, allowed)
    check_size(field, array)
    return np.broadcast_to(array, (dimension,))
