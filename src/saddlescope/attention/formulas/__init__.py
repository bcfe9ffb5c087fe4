"""Formulas that the models share."""
