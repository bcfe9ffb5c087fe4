"""The losses that training descends: of the population, of statistics, of prompts."""

from saddlescope.risk.base import AbstractMapRisk, AbstractRisk, Force, Objective
from saddlescope.risk.population import DenseRisk, DiagonalRisk, population_objective
from saddlescope.risk.prompts import PromptRisk
from saddlescope.risk.statistics import StatisticsRisk
from saddlescope.risk.vector import VectorRisk

__all__ = [
    "AbstractMapRisk",
    "AbstractRisk",
    "DenseRisk",
    "DiagonalRisk",
    "Force",
    "Objective",
    "PromptRisk",
    "StatisticsRisk",
    "VectorRisk",
    "population_objective",
]
