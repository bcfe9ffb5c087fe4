"""Whole segments of small models inside one GPU kernel, with the weights in registers."""
