"""The papers' figures and further ones, each with its setting, run and claims."""

from saddlescope.figures.beyond.any_covariances import AnyCovariances
from saddlescope.figures.beyond.any_inputs import AnyInputs
from saddlescope.figures.beyond.context_lengths import ContextLengthsFigure
from saddlescope.figures.beyond.depth import Depth
from saddlescope.figures.beyond.dormant_heads import DormantHeads
from saddlescope.figures.beyond.drop_time_law import DropTimeLawFigure
from saddlescope.figures.beyond.drop_time_law_recorded import DropTimeLawRecorded
from saddlescope.figures.beyond.edge_of_stability import EdgeOfStability
from saddlescope.figures.beyond.merged_any_covariance import MergedAnyCovariance
from saddlescope.figures.beyond.modes_exactness import ModesExactness
from saddlescope.figures.beyond.noise_and_shift import NoiseAndShift
from saddlescope.figures.beyond.optimisers import Optimisers
from saddlescope.figures.beyond.saddle_graph import SaddleGraphFigure
from saddlescope.figures.beyond.staircase_prediction import StaircasePrediction
from saddlescope.figures.beyond.task_pool import TaskPoolFigure
from saddlescope.figures.kit.claim import Claim, Relation, Verdict
from saddlescope.figures.kit.claims import Claims
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.emergence_ranks import EmergenceRanks
from saddlescope.figures.mainali.grokking import Grokking
from saddlescope.figures.mainali.grokking_measures import GrokkingMeasures
from saddlescope.figures.mainali.grokking_recorded import GrokkingRecorded
from saddlescope.figures.mainali.induction import Induction
from saddlescope.figures.mainali.induction_decaying_recorded import InductionDecayingRecorded
from saddlescope.figures.mainali.induction_recorded import InductionRecorded
from saddlescope.figures.mainali.induction_text_recorded import InductionTextRecorded
from saddlescope.figures.mainali.mt1 import MT1
from saddlescope.figures.mainali.mt2 import MT2
from saddlescope.figures.mainali.mt3 import MT3
from saddlescope.figures.mainali.mt4 import MT4
from saddlescope.figures.mainali.mt5 import MT5
from saddlescope.figures.zhang.fig1 import Figure1
from saddlescope.figures.zhang.fig3 import Figure3
from saddlescope.figures.zhang.fig4 import Figure4
from saddlescope.figures.zhang.fig5 import Figure5
from saddlescope.figures.zhang.fig6 import Figure6
from saddlescope.figures.zhang.fig7 import Figure7
from saddlescope.figures.zhang.fig8 import Figure8
from saddlescope.figures.zhang.fig9 import Figure9
from saddlescope.figures.zhang.fig10 import Figure10
from saddlescope.figures.zhang.init_scale import InitScale
from saddlescope.figures.zhang.long_contexts import LongContexts
from saddlescope.figures.zhang.published_settings import PublishedSettings
from saddlescope.figures.zhang.softmax import Softmax

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
    LongContexts,
    PublishedSettings,
    MT1,
    MT2,
    MT3,
    MT4,
    MT5,
    EmergenceRanks,
    InductionRecorded,
    InductionDecayingRecorded,
    InductionTextRecorded,
    GrokkingMeasures,
    GrokkingRecorded,
    MergedAnyCovariance,
    StaircasePrediction,
    DormantHeads,
    DropTimeLawFigure,
    DropTimeLawRecorded,
    SaddleGraphFigure,
    NoiseAndShift,
    AnyInputs,
    AnyCovariances,
    ContextLengthsFigure,
    Optimisers,
    EdgeOfStability,
    ModesExactness,
    TaskPoolFigure,
    Depth,
)
"""Every figure, in the order in which they are made and shown."""

EXPERIMENTS: tuple[type[AbstractFigure], ...] = (Induction, Grokking)
"""The sheets of `saddlescope transformer`: all measures of one experiment."""

__all__ = [
    "EXPERIMENTS",
    "FIGURES",
    "AbstractFigure",
    "Claim",
    "Claims",
    "Mistake",
    "Relation",
    "Verdict",
    "Watch",
]
