"""The eigenvalues of the loss's Hessian at the fixed points, in closed form (T16, T21)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.arrays import BriefRepr
from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.task import AbstractTask
from saddlescope.theory.landscape._fixed_points import FixedPoint, minimal_norm_weights, minimum
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.parametrisation import is_merged, population_law, summarised_model

# Below this share of the largest a map's entry is the rounding of a rotation.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class HessianSpectrum(BriefRepr):
    """The eigenvalues of the loss's Hessian at a fixed point but for those that vanish there.

    In the model's own weights and normalisation: descent multiplies a distance along one of value h
    by 1 − ηh at every step.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> ss.theory.hessian_spectrum(model, task, [0, 1]).along.round(3).tolist()
    [0.78, 1.267]
    """

    along: Float[np.ndarray, " lengths"]
    """Heads that lengthen along what they have learned."""
    across: Float[np.ndarray, " pairs"]
    """What mixes two of the directions that are learned."""
    turning: Float[np.ndarray, " turns"]
    """Heads that turn to directions that are not learned, or leave zero: these may be negative."""

    @property
    def values(self) -> Float[np.ndarray, " n"]:
        """All of them, falling."""
        return -np.sort(-np.concatenate([self.along, self.across, self.turning]))

    @property
    def largest(self) -> float:
        """The sharpness: 0 where no direction leads up at second order."""
        return float(self.values.max(initial=0.0))


def hessian_spectrum(
    model: AbstractAttention, task: object, point: FixedPoint | Iterable[int]
) -> HessianSpectrum:
    r"""All eigenvalues of the loss's Hessian at the minimal-norm weights of M(S) (T16, T21).

    Separate attention of rank one has $6c_i\xi_i^{1/3}$ for $i \in S$,
    $2b_d\kappa_i(\xi_i^{4/3} + \xi_d^{4/3})$ for ordered pairs in S, and for $i \in S$,
    $d \notin S$ those of
    $2\xi_i^{1/3}[[b_d\kappa_i\xi_i, -c_d], [-c_d, b_i\kappa_d\xi_i]]$. At rank R a head of value v
    with several directions has those of $4v\,\mathrm{diag}(c) + 2\sqrt{\Delta_i\Delta_j}/v^2$
    in place of the first, $v_i\xi_i$ in place of $\xi_i^{4/3}$, and $\pm 2vc_d$ for every free
    pair. Merged attention has $\pm2\|C\|_F$ at zero, H times, and at its minimum those of
    $2\|W_*\|_F(K + K^{1/2}uu^\top K^{1/2})$, $K = \Lambda_q \otimes B$, $u \propto W_*$. All others
    vanish. Without normalisation all are $g^{2/\text{degree}}$ times as large (section 0).

    `point` is a fixed point, or the subset that it has learned (T21).

    >>> from saddlescope.attention import SeparateAttention
    >>> from saddlescope.task import InContextRegression
    >>> task, model = InContextRegression([.4, .3], context_length=31), SeparateAttention(heads=2)
    >>> spectrum = hessian_spectrum(model, task, [0])
    >>> spectrum.along.round(4).tolist(), spectrum.turning.round(4).tolist()
    ([1.2665], [0.5195, 0.0387])
    """
    linear, task_modes = summarised_model(model), modes(task)
    law = population_law(task)
    members = task_modes.subset(point.subset if isinstance(point, FixedPoint) else point)
    if not is_whole(linear, law.dimension):
        raise TheoryDoesNotApply(
            f"T21 is written for merged and separate attention, and {model!r} has fewer weights; "
            "sharpness(model, task, weights) is the largest eigenvalue of its own Hessian"
        )
    # Refuses a point at which the model cannot rest.
    minimal_norm_weights(model, task, members)
    if is_merged(linear):
        return merged_spectrum(linear, law, bool(members))
    by_size = sorted(members, key=lambda mode: -task_modes.amplitude[mode])
    return separate_spectrum(linear, law, task_modes, by_size)


def separate_spectrum(
    model: AbstractLinearAttention, law: AbstractTask, modes: Modes, learned: Sequence[int]
) -> HessianSpectrum:
    """That of separate attention whose heads hold these modes, each as many as it has pairs."""
    return _scaled(_separate(modes, model.pairs, learned), model, law)


def merged_spectrum(
    model: AbstractLinearAttention, law: AbstractTask, learned: bool
) -> HessianSpectrum:
    """That of merged attention at zero, or at its minimum, for any covariances."""
    return _scaled(_merged(model, law, learned), model, law)


def is_whole(model: AbstractLinearAttention, dimension: int) -> bool:
    """Whether the model's weights are all those of the attention that it is, and not some."""
    own = sum(int(np.prod(shape)) for shape in model.shapes(dimension).values())
    pairs = dimension**2 if is_merged(model) else 2 * model.pairs * dimension
    return own == model.heads * (1 + pairs)


def _separate(modes: Modes, rank: int, learned: Sequence[int]) -> HessianSpectrum:
    """Separate attention whose heads hold the learned modes, `rank` of them each."""
    groups = [list(learned[first : first + rank]) for first in range(0, len(learned), rank)]
    amplitude, drive = modes.amplitude, modes.drive
    # b_a κ_c of the map's entry (a, c).
    curvature = np.outer(modes.summary, modes.query_eigenvalues)
    outside = [mode for mode in range(modes.dimension) if mode not in learned]
    value, along, turning = np.zeros(modes.dimension), [np.empty(0)], [np.empty(0)]
    for group in groups:
        own = np.cbrt(amplitude[group].sum())
        value[group] = own
        roots = np.sqrt(modes.drop[group])
        along.append(
            np.linalg.eigvalsh(
                4 * own * np.diag(drive[group]) + 2 * np.outer(roots, roots) / own**2
            )
        )
        on_keys = curvature[np.ix_(outside, group)].T * amplitude[group][:, None]
        on_queries = curvature[np.ix_(group, outside)] * amplitude[group][:, None]
        bend = np.hypot(on_keys - on_queries, 2 * drive[outside])
        free = np.tile(2 * own * drive[outside], rank - len(group))
        turning += [own * (on_keys + on_queries + sign * bend).ravel() for sign in (1, -1)]
        turning += [free, -free]
    members = list(learned)
    length = (value * amplitude)[members]
    pairs = 2 * curvature[np.ix_(members, members)] * (length[:, None] + length)
    across = pairs[~np.eye(len(members), dtype=bool)]
    return HessianSpectrum(np.concatenate(along), across, np.concatenate(turning))


def _merged(model: AbstractLinearAttention, law: AbstractTask, learned: bool) -> HessianSpectrum:
    """Merged attention at zero, or at its minimum, for any covariances."""
    moments, none = law.moments(), np.empty(0)
    if law.has_vector_labels:
        raise TheoryDoesNotApply(
            f"T21 is written for scalar labels, and those of {law!r} are vectors"
        )
    if not learned:
        rate = 2 * float(np.linalg.norm(moments.drive))
        return HessianSpectrum(none, none, np.repeat([rate, -rate], model.heads))
    (rows, left), (columns, right) = (
        np.linalg.eigh(matrix) for matrix in (moments.summary, moments.query)
    )
    best = left.T @ minimum(law).effective_map @ right
    size = float(np.linalg.norm(best))
    best[np.abs(best) < _ROUNDING * size] = 0.0
    curvature = np.outer(rows, columns).clip(min=0.0)
    held = best != 0
    # Entries of the map that the minimum does not have move by themselves.
    roots = np.sqrt(curvature[held]) * best[held] / (size or 1.0)
    along = np.linalg.eigvalsh(2 * size * (np.diag(curvature[held]) + np.outer(roots, roots)))
    return HessianSpectrum(along, 2 * size * curvature[~held], none)


def _scaled(
    spectrum: HessianSpectrum, model: AbstractLinearAttention, law: AbstractTask
) -> HessianSpectrum:
    """In the model's own normalisation (section 0)."""
    unit = model.time_unit(model.gain(law.fixed_length))
    return HessianSpectrum(unit * spectrum.along, unit * spectrum.across, unit * spectrum.turning)
