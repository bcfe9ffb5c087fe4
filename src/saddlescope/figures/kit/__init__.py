"""What figures are made with: the interface, claims, panels, and the reproduction."""
