"""Figures beyond both papers."""
