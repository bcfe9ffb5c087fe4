"""Measures of any training run, from its arrays alone.

NumPy arrays give NumPy arrays, torch tensors give tensors on their device. Computation and results
are in float64 or float32; lower precision is raised to float32.
"""

from saddlescope.measure._circuits import Circuits, circuits
from saddlescope.measure._factored import FactoredMatrix
from saddlescope.measure._stages import Drop, Plateau, Stages, stages
from saddlescope.measure.change import ChangePoint, change_point
from saddlescope.measure.crossings import drop_times, first_crossing, first_record
from saddlescope.measure.curvature import (
    Curvature,
    CurvatureAxis,
    autocorrelation_curvature,
    norm_curvature,
)
from saddlescope.measure.distribution import Distribution
from saddlescope.measure.in_context import copying_scores, in_context_score, prefix_matching
from saddlescope.measure.spectra import (
    effective_rank,
    marginalised_effective_rank,
    participation_ratio,
    singular_values,
    stable_rank,
)
from saddlescope.measure.subspace import (
    SubspaceDistance,
    principal_angles,
    subspace_distance,
    subspace_drift,
)

__all__ = [
    "ChangePoint",
    "Circuits",
    "Curvature",
    "CurvatureAxis",
    "Distribution",
    "Drop",
    "FactoredMatrix",
    "Plateau",
    "Stages",
    "SubspaceDistance",
    "autocorrelation_curvature",
    "change_point",
    "circuits",
    "copying_scores",
    "drop_times",
    "effective_rank",
    "first_crossing",
    "first_record",
    "in_context_score",
    "marginalised_effective_rank",
    "norm_curvature",
    "participation_ratio",
    "prefix_matching",
    "principal_angles",
    "singular_values",
    "stable_rank",
    "stages",
    "subspace_distance",
    "subspace_drift",
]
