"""What did happen: measures of any training run, from its arrays alone."""

from saddlescope.measure.stages import Drop, Plateau, Stages, stages

__all__ = ["Drop", "Plateau", "Stages", "stages"]
