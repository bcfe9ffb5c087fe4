"""The shape of the loss: modes, fixed points, saddles and the ways out of them."""
