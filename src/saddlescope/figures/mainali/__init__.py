"""Figures of Mainali and Teixeira, and the transformers that they lead to."""
