"""The one schema: kinds and their fields, to plain values, text and flags and back, digests."""

from saddlescope.setting._setting import Setting

__all__ = ["Setting"]
