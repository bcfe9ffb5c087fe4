"""The lab: a page on which you change the task and the model, and training and theory answer."""

from saddlescope.lab._open import open_lab

__all__ = ["open_lab"]
