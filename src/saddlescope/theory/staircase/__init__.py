"""The staircase of separate attention, from its initial weights alone."""
