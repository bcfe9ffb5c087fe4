"""What every figure is made with: the interface, claims, panels, and the reproduction."""
