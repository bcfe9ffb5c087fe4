"""The papers' figures and those beyond them: each with its setting, its run and its claims."""

from saddlescope.figures.base import AbstractFigure
from saddlescope.figures.claim import Claim
from saddlescope.figures.context_lengths import ContextLengthsFigure
from saddlescope.figures.depth import Depth
from saddlescope.figures.fig1 import Figure1
from saddlescope.figures.fig3 import Figure3
from saddlescope.figures.fig4 import Figure4
from saddlescope.figures.fig5 import Figure5
from saddlescope.figures.fig6 import Figure6
from saddlescope.figures.fig7 import Figure7
from saddlescope.figures.fig8 import Figure8
from saddlescope.figures.fig9 import Figure9
from saddlescope.figures.fig10 import Figure10
from saddlescope.figures.grokking import Grokking
from saddlescope.figures.grokking_recorded import GrokkingRecorded
from saddlescope.figures.induction import Induction
from saddlescope.figures.induction_recorded import InductionRecorded
from saddlescope.figures.induction_text_recorded import InductionTextRecorded
from saddlescope.figures.init_scale import InitScale
from saddlescope.figures.merged_any_covariance import MergedAnyCovariance
from saddlescope.figures.modes_exactness import ModesExactness
from saddlescope.figures.mt1 import MT1
from saddlescope.figures.mt2 import MT2
from saddlescope.figures.mt3 import MT3
from saddlescope.figures.mt4 import MT4
from saddlescope.figures.mt5 import MT5
from saddlescope.figures.mt6 import MT6
from saddlescope.figures.mt7 import MT7
from saddlescope.figures.noise_and_shift import NoiseAndShift
from saddlescope.figures.optimisers import Optimisers
from saddlescope.figures.saddle_graph import SaddleGraphFigure
from saddlescope.figures.softmax import Softmax
from saddlescope.figures.staircase_prediction import StaircasePrediction
from saddlescope.figures.task_pool import TaskPoolFigure
from saddlescope.figures.watch import Watch

FIGURES: tuple[type[AbstractFigure], ...] = (
    Figure1,
    Figure3,
    Figure4,
    Figure5,
    Figure6,
    Figure7,
    Figure8,
    Figure9,
    Figure10,
    Softmax,
    InitScale,
    MT1,
    MT2,
    MT3,
    MT4,
    MT5,
    MT6,
    InductionRecorded,
    InductionTextRecorded,
    MT7,
    GrokkingRecorded,
    MergedAnyCovariance,
    StaircasePrediction,
    SaddleGraphFigure,
    NoiseAndShift,
    ContextLengthsFigure,
    Optimisers,
    ModesExactness,
    TaskPoolFigure,
    Depth,
)
"""Every figure, in the order in which they are made and shown."""

EXPERIMENTS: tuple[type[AbstractFigure], ...] = (Induction, Grokking)
"""The sheets of `saddlescope transformer`: all measures of one experiment."""

__all__ = ["EXPERIMENTS", "FIGURES", "AbstractFigure", "Claim", "Watch"]
