"""The claims about decoders around the emergence of in-context learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, within
from saddlescope.figures.kit.mistake import Mistake, changed, replaced, rolled, scaled
from saddlescope.transformer import InductionExperiment

NON_LINEAR = "MT, on non-linear transformers"
"""Where claims of the paper stand whose figure we do not know."""

# Early: within this share of the training.
_EARLY = 1 / 3
# Faster: at least this many times as fast.
_FASTER = 1.15
_CONSTANT = "in this setting, by AdamW at a constant rate,"


@dataclass(frozen=True)
class InductionBounds:
    """The bounds of the claims about an emergence, which depend on the size of a run."""

    rank_share: float
    """By what share of its first value the QK rank falls, at least, …"""
    rank_ratio: float
    """… and how many times as far as with one layer."""
    distance_left: tuple[float, float]
    """The share of the subspace distance that is left at the emergence, and its tolerance."""
    distance_pace: float
    """How much faster than on the whole the distance falls around it, at least."""


LARGE = InductionBounds(0.02, 2.4, (0.77, 0.03), 1.3)
"""Of the preset for a GPU, which trains four times as long as it takes to emerge."""
DECAYING = InductionBounds(0.02, 2.3, (0.6, 0.04), 1.8)
"""Of the same with a learning rate that falls to 0."""

_WHOLE = InductionBounds(0.12, 2.5, (0.59, 0.06), 1.2)
# A small decoder gets further before it learns to induce, and the rank of one layer drifts too.
_SMALL = InductionBounds(0.06, 1.8, (0.62, 0.09), 1.15)


def bounds_of(experiment: InductionExperiment) -> InductionBounds:
    """The bounds for the preset that an experiment is, or for small decoders."""
    if experiment == InductionExperiment():
        return _WHOLE
    return LARGE if experiment == InductionExperiment.large() else _SMALL


def emergence_claim(data: xr.Dataset) -> Claim:
    """In-context learning emerges with two or more layers, not with one."""
    return equal(
        "in-context learning emerges with two or more layers, never with one: share of the "
        "seeds, by depth",
        data["emergence"].notnull().mean("seed"),
        data["layers"].to_numpy() > 1,
        "depths as predicted",
    )


def head_claim(data: xr.Dataset) -> Claim:
    """It emerges with an induction head."""
    return equal(
        "a prefix-matching head emerges with two or more layers, never with one: share of the "
        "seeds, by depth",
        data["emergence_by_heads"].notnull().mean("seed"),
        data["layers"].to_numpy() > 1,
        "depths as predicted",
    )


def rank_claims(data: xr.Dataset, bounds: InductionBounds) -> tuple[Claim, ...]:
    """The QK rank moves at the emergence: by how many times one layer's, and by what share."""
    deep = data.sel(layers=data["layers"] > 1)
    shallow = data.sel(layers=data["layers"] == 1)
    fall = deep["qk_fall"].median("seed")
    first = float(data["qk_marginal_rank"].isel(step=0).mean())
    moves = at_least(
        "the QK rank changes at the emergence: by what share of its initial value, median of "
        "the seeds, by depth",
        fall / first,
        bounds.rank_share,
    ).stated_in(NON_LINEAR)
    dips = at_least(
        "the QK rank dips, falling and recovering: share of the fall regained by the end, by depth",
        deep["qk_return"].median("seed"),
        0.5,
    ).expected_to_fail(
        "the rank falls at the emergence and stays down, or goes on falling, until the end of "
        "the run"
    )
    if not shallow.sizes["layers"]:
        return (moves, dips)
    further = at_least(
        "with two or more layers the QK rank falls further at the emergence than with one layer "
        "over as long a stretch: ratio of the falls, median of the seeds, by depth",
        fall / float(shallow["qk_fall"].median("seed").item()),
        bounds.rank_ratio,
    )
    return (moves, further, dips)


def early_claim(data: xr.Dataset) -> Claim:
    """The subspace distance converges relatively early."""
    share = data["half_step"] / float(data["step"][-1])
    return at_most(
        "the subspace distance, averaged over QK and OV, converges early: with two or more "
        "layers it is halved within a third of the training; share of the training at that "
        "step, median of the seeds",
        share.sel(layers=data["layers"] > 1).median("seed"),
        _EARLY,
    ).stated_in("MT Figure 5")


def late_claim(data: xr.Dataset) -> Claim:
    """The same claim at a constant learning rate, where it does not hold."""
    return early_claim(data).expected_to_fail(
        f"{_CONSTANT} the subspaces turn until the end, and with two layers and more the "
        "distance is halved only when two fifths of the run have passed"
    )


def drift_claim(data: xr.Dataset) -> Claim:
    """The subspaces turn faster around the emergence than before and after it."""
    deep = data.sel(layers=data["layers"] > 1)
    return at_least(
        "the subspaces turn faster around the emergence: drift between records over that before "
        "and after, median of the seeds, by depth",
        deep["drift_rise"].median("seed"),
        _FASTER,
    )


def deeper_claim(data: xr.Dataset) -> Claim:
    """The deeper the model, the earlier the distance converges relative to the emergence."""
    return at_least(
        "the deeper the model, the earlier the subspace distance is halved relative to the "
        "emergence: by how much the ratio of the two steps falls with each layer",
        -np.diff(_after_emergence(data)),
        0.0,
    ).stated_in("MT Figure 5")


def distance_claims(data: xr.Dataset, bounds: InductionBounds) -> tuple[Claim, ...]:
    """What the subspace distance does at a constant rate, early and around the emergence."""
    return (late_claim(data), *around_claims(data, bounds))


def before_claim(data: xr.Dataset) -> Claim:
    """The subspace distance converges before the emergence or with it."""
    return (
        at_most(
            "the subspace distance converges before the emergence or with it: step at which it "
            "is halved over the step of the emergence, median of the seeds, by depth",
            _after_emergence(data),
            1.0,
        )
        .stated_in("MT Figure 5")
        .expected_to_fail(
            "in this setting, by AdamW, it is halved after the emergence: with two layers at 1.2 "
            "times its step or later"
        )
    )


def around_claims(data: xr.Dataset, bounds: InductionBounds) -> tuple[Claim, ...]:
    """What the subspace distance does before or with the emergence, by depth."""
    deep = data.sel(layers=data["layers"] > 1)
    return (
        before_claim(data),
        within(
            "at the emergence most of the subspace distance is still left: share left, median "
            "of the seeds, by depth",
            deep["distance_left"].median("seed"),
            *bounds.distance_left,
        ),
        at_least(
            "the subspace distance falls faster around the emergence than on average: ratio of "
            "the rates, median of the seeds, by depth",
            deep["distance_pace"].median("seed"),
            bounds.distance_pace,
        ),
    )


def _after_emergence(data: xr.Dataset) -> xr.DataArray:
    """The step at which the distance is halved over that of the emergence, by depth."""
    deep = data.sel(layers=data["layers"] > 1)
    return (deep["half_step"] / deep["emergence"]).median("seed")


def rank_mistakes() -> tuple[Mistake, ...]:
    """Ranks that move less, come back, or move at another depth."""
    return (
        scaled("ranks that move .4 times as far", 0.4, "qk_fall"),
        rolled("the falls of another depth", "layers", "qk_fall"),
        replaced("ranks that come back", {"qk_return": 0.8}),
        *emergence_mistakes(),
    )


def emergence_mistakes() -> tuple[Mistake, ...]:
    """An emergence at another depth, or where there is none."""
    return (
        rolled("depths in another order", "layers", "emergence"),
        changed("one layer that learns too", "emergence", by=lambda step: step.fillna(100.0)),
    )


def distance_mistakes() -> tuple[Mistake, ...]:
    """Distances halved at another step, to another end, or falling at another pace."""
    return (
        scaled("half as many steps", 0.5, "half_step"),
        scaled("an emergence two and a half times as late", 2.6, "emergence"),
        changed("the distance from the first step", "distance_left", by=lambda left: 1 - left),
        scaled("distances that fall .4 times as fast", 0.4, "distance_pace"),
    )


def drift_mistakes() -> tuple[Mistake, ...]:
    """Subspaces that turn as fast outside the emergence, or slower around it."""
    return (
        replaced("a drift that is even", {"drift_rise": 1.0}),
        changed("the drift outside over that inside", "drift_rise", by=lambda rise: 1 / rise),
    )
