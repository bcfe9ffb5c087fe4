"""How weights move: gradient flow and descent, in compiled segments."""
