"""Segments of small models in one GPU kernel, with the weights in registers."""
