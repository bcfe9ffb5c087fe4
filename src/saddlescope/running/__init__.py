"""How anything long is carried out: progress, interruption, memory."""
