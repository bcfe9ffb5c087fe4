"""Figures of Zhang, Singh, Latham and Saxe."""
