"""Predictions from theory alone: fixed points, landscape, time courses, staircases.

Nothing here has seen a run: agreement with training means something.
"""

from saddlescope.theory._algorithms import Algorithm, Predictor, algorithms, bayes_optimal, ridge
from saddlescope.theory.courses._alignment import alignment, early_alignment
from saddlescope.theory.courses.batch_noise import BatchSpread, batch_spread
from saddlescope.theory.courses.full_blocks import (
    BlockOptimum,
    block_loss,
    block_optimum,
    drive_matrix,
    one_head,
)
from saddlescope.theory.courses.head import HeadTimeCourse, head_time_course
from saddlescope.theory.courses.lazy import LazyCourse, lazy_course
from saddlescope.theory.courses.merged import (
    PlateauDuration,
    TimeCourse,
    plateau_duration,
    time_course,
)
from saddlescope.theory.in_context import (
    InContextPredictor,
    in_context_predictor,
    least_squares,
    principal_component_regression,
)
from saddlescope.theory.landscape._fixed_points import (
    FixedPoint,
    FixedPoints,
    Minimum,
    fixed_points,
    minimal_norm_weights,
    minimum,
    plateau_losses,
)
from saddlescope.theory.landscape._hessian_spectrum import HessianSpectrum, hessian_spectrum
from saddlescope.theory.landscape._modes import Modes, modes
from saddlescope.theory.landscape._sharpness import (
    StaircaseSharpness,
    sharpness,
    staircase_sharpness,
)
from saddlescope.theory.landscape._singular_modes import SingularModes, singular_modes
from saddlescope.theory.landscape.conservation import (
    DescentDrift,
    conserved_quantities,
    descent_drift,
)
from saddlescope.theory.landscape.escape import EscapeDirection, escape_direction, escape_directions
from saddlescope.theory.landscape.graph import SaddleGraph, saddle_graph
from saddlescope.theory.landscape.index import hessian, hessian_index, saddle_index
from saddlescope.theory.linear_transformer import (
    CoupledFixedPoint,
    CoupledModes,
    UncoupledModes,
    coupled_fixed_point,
    coupled_modes,
    coupled_plateau_losses,
    coupling_coefficient,
    logistic_modes,
    unbalanced_modes,
)
from saddlescope.theory.staircase.dormant import (
    DormantStaircase,
    dormant_staircase,
    first_drop_times,
    runaway_times,
)
from saddlescope.theory.staircase.drops import (
    PredictedDrop,
    Staircase,
    Staircases,
    predict_staircase,
    predict_staircases,
)
from saddlescope.theory.staircase.law import DropTimeLaw, drop_time_law

__all__ = [
    "Algorithm",
    "BatchSpread",
    "BlockOptimum",
    "CoupledFixedPoint",
    "CoupledModes",
    "DescentDrift",
    "DormantStaircase",
    "DropTimeLaw",
    "EscapeDirection",
    "FixedPoint",
    "FixedPoints",
    "HeadTimeCourse",
    "HessianSpectrum",
    "InContextPredictor",
    "LazyCourse",
    "Minimum",
    "Modes",
    "PlateauDuration",
    "PredictedDrop",
    "Predictor",
    "SaddleGraph",
    "SingularModes",
    "Staircase",
    "StaircaseSharpness",
    "Staircases",
    "TimeCourse",
    "UncoupledModes",
    "algorithms",
    "alignment",
    "batch_spread",
    "bayes_optimal",
    "block_loss",
    "block_optimum",
    "conserved_quantities",
    "coupled_fixed_point",
    "coupled_modes",
    "coupled_plateau_losses",
    "coupling_coefficient",
    "descent_drift",
    "dormant_staircase",
    "drive_matrix",
    "drop_time_law",
    "early_alignment",
    "escape_direction",
    "escape_directions",
    "first_drop_times",
    "fixed_points",
    "head_time_course",
    "hessian",
    "hessian_index",
    "hessian_spectrum",
    "in_context_predictor",
    "lazy_course",
    "least_squares",
    "logistic_modes",
    "minimal_norm_weights",
    "minimum",
    "modes",
    "one_head",
    "plateau_duration",
    "plateau_losses",
    "predict_staircase",
    "predict_staircases",
    "principal_component_regression",
    "ridge",
    "runaway_times",
    "saddle_graph",
    "saddle_index",
    "sharpness",
    "singular_modes",
    "staircase_sharpness",
    "time_course",
    "unbalanced_modes",
]
