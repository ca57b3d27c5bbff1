"""Training systems: what they learn from, early stopping, checkpoints."""
