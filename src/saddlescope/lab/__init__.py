"""The lab: a page on which the task and the model change under one's hands, and theory answers."""

from saddlescope.lab._open import open_lab

__all__ = ["open_lab"]
